"""Show how the steps are going: a live table on a terminal, plain lines elsewhere.

The estimate is honest about what it is: the weights of what is left, divided by the pace that this machine
has shown since the start (weight finished per second), so that it corrects itself on a slower or busier one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lab.toolchain.schedule import Step

PRIOR_WEIGHT = 60.0
"""The assumed pace (the benchmark machine's, per core) counts as much as this many CPU-seconds of experience."""
PLAIN_SECONDS = 60.0
"""Without a terminal: how long to stay silent while nothing ends."""


@dataclass
class Estimate:
    """How long what is left will take. Times are those of a monotonic clock, in seconds."""

    total: float
    """The weights of all steps together."""
    cores: int
    begun: float

    def remaining(self, seen: float, guessed: float, now: float) -> float:
        """Seconds left at `now`, when steps of weight `seen` (counted fractions included) are finished.

        `guessed` is the weight taken to be done of steps that count nothing: it shortens what is left, and says
        nothing about the pace.
        """
        prior = PRIOR_WEIGHT / self.cores
        pace = (seen + PRIOR_WEIGHT) / (now - self.begun + prior)
        return max(self.total - seen - guessed, 0.0) / pace


@dataclass
class _State:
    began: float | None = None
    ended: float | None = None
    done: int = 0
    total: int = 0
    note: str = ""

    def seen(self) -> float:
        """The fraction that is known to be done. A link, which ends a build, compiles no package: hence not all."""
        if self.ended is not None:
            return 1.0
        return min(self.done / self.total, 1.0) * 0.95 if self.total else 0.0

    def guessed(self, weight: float, now: float) -> float:
        """For a step that counts nothing: the fraction that is done if it keeps one core busy for its weight."""
        if self.ended is not None or self.total or self.began is None:
            return 0.0
        return min((now - self.began) / weight, 0.9)


@dataclass
class Progress:
    """The board of a Schedule. Use it as a context manager around `run`."""

    console: Console
    steps: Sequence[Step]
    _states: dict[str, _State] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _live: Live | None = None
    _closing: threading.Event = field(default_factory=threading.Event)
    _last_line: float = 0.0

    def __enter__(self) -> Progress:
        now = time.monotonic()
        self._states = {step.name: _State() for step in self.steps}
        self._estimate = Estimate(sum(step.weight for step in self.steps), os.cpu_count() or 1, now)
        self._last_line = now
        if self.console.is_terminal:
            self._live = Live(
                get_renderable=self._render, console=self.console, refresh_per_second=2, transient=True
            )
            self._live.__enter__()
        else:
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        if self._live:
            self._live.__exit__(kind, error, trace)

    # What the schedule tells

    def started(self, step: Step) -> None:
        with self._lock:
            self._states[step.name].began = time.monotonic()

    def advanced(self, step: Step, done: int, total: int) -> None:
        with self._lock:
            state = self._states[step.name]
            state.done, state.total = done, total

    def noted(self, step: Step, text: str) -> None:
        with self._lock:
            self._states[step.name].note = text

    def finished(self, step: Step, seconds: float) -> None:
        with self._lock:
            state = self._states[step.name]
            state.ended = time.monotonic()
            ended = sum(other.ended is not None for other in self._states.values())
            took = state.note or f"{duration(seconds)}"
            rest = f"   {self._left()}" if ended < len(self.steps) else ""
            self._print(f"[{ended:>2}/{len(self.steps)}] {_label(step):<44} {took}{rest}")

    # What people see

    def _print(self, line: str) -> None:
        self._last_line = time.monotonic()
        self.console.print(Text(line), soft_wrap=True)

    def _left(self) -> str:
        now = time.monotonic()
        states = [(step.weight, self._states[step.name]) for step in self.steps]
        seen = sum(weight * state.seen() for weight, state in states)
        guessed = sum(weight * state.guessed(weight, now) for weight, state in states)
        return f"about {duration(self._estimate.remaining(seen, guessed, now))} left"

    def _tick(self) -> None:
        while not self._closing.wait(1.0):
            with self._lock:
                if time.monotonic() - self._last_line >= PLAIN_SECONDS:
                    at_work = ", ".join(f"{_label(step)}{self._packages(step)}" for step in self._running())
                    self._print(f"        at work: {at_work}   {self._left()}")

    def _running(self) -> list[Step]:
        states = self._states
        return [s for s in self.steps if states[s.name].began is not None and states[s.name].ended is None]

    def _packages(self, step: Step) -> str:
        state = self._states[step.name]
        return f" ({state.done:,} of {state.total:,} packages)" if state.total else ""

    def _render(self) -> RenderableType:
        with self._lock:
            now = time.monotonic()
            table = Table.grid(padding=(0, 2))
            for step in self._running():
                since = self._states[step.name].began or now
                table.add_row("  …", _label(step), duration(now - since), self._packages(step).strip(" ()"))
            waiting = sum(state.began is None for state in self._states.values())
            summary = f"{self._left()}, {duration(now - self._estimate.begun)} gone, {waiting} steps waiting"
            return Group(table, Text(summary, style="bold"))


def duration(seconds: float) -> str:
    """`8 s`, `4 min 10 s`, `26 min`: as exact as it is worth."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 10 else f"{round(seconds / 60)} min"


def _label(step: Step) -> str:
    return step.label or step.name
