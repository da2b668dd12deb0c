"""TensorBoard, if the job asks: the numbers of `metrics.jsonl` as event files under `tensorboard/`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorboardX import SummaryWriter


class Board:
    """Writes for one start, that goes on after `step`: what an earlier start wrote of later steps is taken back."""

    def __init__(self, folder: Path, step: int) -> None:
        self._writer = SummaryWriter(str(folder), purge_step=step + 1)

    def write(self, event: str, step: int, facts: dict[str, Any]) -> None:
        for name, value in _numbers(event, facts):
            self._writer.add_scalar(name, value, step)
        self._writer.flush()


def _numbers(path: str, facts: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """`step/seconds/data`, and so on."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _numbers(f"{path}/{name}", value)
        elif isinstance(value, int | float):
            yield f"{path}/{name}", value
