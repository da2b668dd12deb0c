from __future__ import annotations

import itertools

import pytest

from trainer.config import Schedule
from trainer.schedule import rate


def test_up_in_a_line_and_down_a_cosine() -> None:
    schedule = Schedule(warmup=10, floor=0.1)
    rates = [rate(step, 110, 2.0, schedule) for step in range(1, 111)]
    assert rates[0] == pytest.approx(0.2)
    assert rates[9] == pytest.approx(2.0) == max(rates)
    assert rates[59] == pytest.approx(1.1)
    assert rates[-1] == pytest.approx(0.2)
    assert all(before > after for before, after in itertools.pairwise(rates[9:]))


def test_without_warmup_the_first_step_is_near_the_peak() -> None:
    assert rate(1, 1000, 1.0, Schedule(warmup=0)) == pytest.approx(1.0, abs=1e-4)
