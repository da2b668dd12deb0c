"""Where the time of a step goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

ON_DEVICE = ("passes", "update")
"""Parts whose work a GPU does behind the program's back: these are timed on the GPU."""

OUTSIDE = "between its parts"


class Stopwatch:
    """The time since the last report, by parts: data, passes (forward and backward), update, evaluate, save."""

    def __init__(self, device: torch.device) -> None:
        self._events = device.type == "cuda"
        self.place = OUTSIDE
        """The part that runs, or that an error broke off."""
        self.reset()

    def reset(self) -> None:
        self.began = time.perf_counter()
        self.steps = 0
        """That are done."""
        self._parts: dict[str, float] = {}
        self._marks: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        start, self.place = time.perf_counter(), part
        first = mark() if self._events and part in ON_DEVICE else None
        yield
        self.place = OUTSIDE
        if first is not None:
            self._marks.append((part, first, mark()))
        else:
            self.add(part, time.perf_counter() - start)

    def add(self, part: str, seconds: float) -> None:
        self._parts[part] = self._parts.get(part, 0.0) + seconds

    def parts(self) -> dict[str, float]:
        """Seconds of each part since the last reset. Waits for the device."""
        for part, first, last in self._marks:
            last.synchronize()
            self.add(part, first.elapsed_time(last) / 1000)
        self._marks.clear()
        return dict(self._parts)

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.began


def mark() -> torch.cuda.Event:
    """This point in the device's work."""
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
