"""Batches made ready by a thread."""

from __future__ import annotations

import threading

import pytest
import torch

from trainer import exits
from trainer.data.ahead import Ahead
from trainer.data.batches import Batches, Micro


class Counted(Batches):
    """Says what was read, and on which thread."""

    def __init__(self, breaks: int = 0) -> None:
        self.read: list[tuple[int, str]] = []
        self.begun = {step: threading.Event() for step in range(100)}
        self.breaks = breaks

    def step(self, step: int, batch: int, seed: int) -> list[Micro]:
        self.read.append((step, threading.current_thread().name))
        self.begun[step].set()
        if step == self.breaks:
            raise exits.Failure("the disk is gone")
        return [Micro(torch.full((1, 1), step), torch.full((1, 1), batch + seed), 1)]


def test_the_next_step_is_read_before_it_is_asked_for() -> None:
    batches = Counted()
    ahead = Ahead(batches, 4, 3, last=5)
    for step in range(1, 6):
        (micro,) = ahead.step(step)
        assert (micro.inputs.item(), micro.targets.item()) == (step, 7)
        if step < 5:
            assert batches.begun[step + 1].wait(10)
    assert [step for step, _ in batches.read] == [1, 2, 3, 4, 5], "each once, and none after the last"
    assert threading.main_thread().name not in {thread for _, thread in batches.read}


def test_going_back_gives_that_step() -> None:
    ahead = Ahead(Counted(), 4, 3, last=50)
    assert [ahead.step(step)[0].inputs.item() for step in (1, 2, 3, 2, 3, 40)] == [1, 2, 3, 2, 3, 40]


def test_an_error_is_raised_where_the_batch_is_asked_for() -> None:
    ahead = Ahead(Counted(breaks=2), 4, 3, last=5)
    ahead.step(1)
    with pytest.raises(exits.Failure, match="the disk is gone"):
        ahead.step(2)
