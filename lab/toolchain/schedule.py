"""Run steps that depend on each other, as many at once as the machine has use for.

A step waits for the steps that it names and for a place in its lane. When one fails, the commands of all
others are ended, and the first error is what the caller gets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Protocol

from lab.toolchain.commands import Commands, StopSignal, Usage
from lab.toolchain.errors import ToolchainError


@dataclass(frozen=True)
class Step:
    """Something to be made.

    `weight` is what it costs on the machine of docs/benchmarks.md, in CPU-seconds (or, where the network is
    what takes the time, in the seconds it takes times that machine's cores): the progress display scales it.
    """

    name: str
    lane: str
    work: Callable[[Work], None]
    needs: frozenset[str] = frozenset()
    weight: float = 5.0
    label: str = ""
    disk: float = 0.0
    """GB that it leaves in the cache."""


@dataclass(frozen=True)
class Work:
    """What a running step has to hand: a way to run commands and one to say how far it is."""

    commands: Commands
    progress: Callable[[int, int], None]
    note: Callable[[str], None]
    """Say how it came about, where that isn't by building ("found on PATH")."""


@dataclass(frozen=True)
class Timing:
    """What a step took."""

    began: float
    """Seconds after the first step began."""
    seconds: float
    cpu_seconds: float


class Board(Protocol):
    """What is told how the steps are going (progress.py shows it). Called from several threads."""

    def started(self, step: Step) -> None: ...
    def advanced(self, step: Step, done: int, total: int) -> None: ...
    def noted(self, step: Step, text: str) -> None: ...
    def finished(self, step: Step, seconds: float) -> None: ...


@dataclass
class Schedule:
    """`lanes` says how many steps of each lane may run at once."""

    steps: Sequence[Step]
    lanes: Mapping[str, int]
    logs: Path
    board: Board
    timings: dict[str, Timing] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = {step.name for step in self.steps}
        for step in self.steps:
            if missing := step.needs - names:
                raise ValueError(f"step {step.name} needs {sorted(missing)}, which are not among the steps")
        _refuse_cycles(self.steps)

    def run(self) -> None:
        """Run every step to its end.

        Raises ToolchainError for the first step that failed; KeyboardInterrupt ends the commands too.
        """
        stop = StopSignal()
        waiting = list(self.steps)
        running: dict[Future[Timing], Step] = {}
        begin = time.monotonic()
        with ThreadPoolExecutor(max_workers=sum(self.lanes.values())) as threads:
            try:
                while waiting or running:
                    for step in self._ready(waiting, list(running.values())):
                        waiting.remove(step)
                        running[threads.submit(self._one, step, stop, begin)] = step
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        self.timings[running.pop(future).name] = future.result()
            except BaseException:
                stop.set()
                raise

    def _ready(self, waiting: Sequence[Step], running: Sequence[Step]) -> list[Step]:
        """The steps to start now, in the order in which they were given."""
        free = dict(self.lanes)
        for step in running:
            free[step.lane] -= 1
        ready = []
        for step in waiting:
            if step.needs <= self.timings.keys() and free[step.lane] > 0:
                free[step.lane] -= 1
                ready.append(step)
        return ready

    def _one(self, step: Step, stop: StopSignal, begin: float) -> Timing:
        log = self.logs / f"{step.name.replace(':', '-')}.log"
        log.unlink(missing_ok=True)
        usage = Usage()
        work = Work(
            Commands(log, stop, usage),
            progress=lambda done, total: self.board.advanced(step, done, total),
            note=lambda text: self.board.noted(step, text),
        )
        started = time.monotonic()
        self.board.started(step)
        try:
            step.work(work)
        except (ToolchainError, OSError) as error:
            raise ToolchainError(f"{step.label or step.name}: {error}") from error
        seconds = time.monotonic() - started
        self.board.finished(step, seconds)
        return Timing(round(started - begin, 1), round(seconds, 1), round(usage.cpu, 1))


def _refuse_cycles(steps: Sequence[Step]) -> None:
    try:
        TopologicalSorter({step.name: step.needs for step in steps}).prepare()
    except CycleError as error:
        raise ValueError(f"steps wait for each other: {', '.join(error.args[1])}") from None
