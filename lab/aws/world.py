"""The emulator's one world: its state, the lock that guards it, and the work going on in it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from lab.nodes.api import Runtime
from lab.settings import Lab

log = logging.getLogger(__name__)
State = TypeVar("State")


class World:
    """State by service and region, timers and worker threads.

    One lock guards everything, moto's backends included: the server holds it for each request, and so
    does whatever `after` runs. A worker started by `work` runs *without* it, because it calls the
    Runtime, which blocks for seconds or minutes; it takes the lock only around changes of state.

    `pace` multiplies every wait (1.0: seconds, where AWS takes minutes; 0: none).
    """

    def __init__(self, lab: Lab, runtime: Runtime | None = None, pace: float = 1.0) -> None:
        self.lab = lab
        self.runtime = runtime
        self.pace = pace
        self.lock = threading.RLock()
        self.closing = threading.Event()
        self._states: dict[tuple[type, str], Any] = {}
        self._workers: set[threading.Thread] = set()
        self._timers: set[threading.Timer] = set()
        self._unlocked = threading.local()

    def state(self, kind: type[State], region: str) -> State:
        """The state of that kind in that region, made empty at first use."""
        return self._states.setdefault((kind, region), kind())

    def states(self, kind: type[State]) -> dict[str, State]:
        """The state of that kind by region, of the regions used so far."""
        return {region: state for (found, region), state in self._states.items() if found is kind}

    def after(self, seconds: float, function: Callable[[], None]) -> None:
        """Run `function` with the lock held, `seconds` (times pace) from now."""

        def run() -> None:
            self._timers.discard(timer)
            if not self.closing.is_set():
                with self.lock:
                    _logged(function)

        timer = threading.Timer(seconds * self.pace, run)
        timer.daemon = True
        self._timers.add(timer)
        timer.start()

    def work(self, name: str, function: Callable[[], None]) -> None:
        """Run `function` in a thread of its own, without the lock."""

        def run() -> None:
            _logged(function)
            self._workers.discard(thread)

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._workers.add(thread)
        thread.start()

    def before_reply(self, function: Callable[[], None]) -> None:
        """Run `function` once this request has let go of the lock, before its answer is sent.

        For calls that must have taken effect when they return, but whose effect is slow.
        """
        self._pending().append(function)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Answer one request: the body holds the lock, what it left for `before_reply` runs after it."""
        pending = self._pending()
        try:
            with self.lock:
                yield
            while pending:
                pending.pop(0)()
        finally:
            pending.clear()

    def _pending(self) -> list[Callable[[], None]]:
        if not hasattr(self._unlocked, "pending"):
            self._unlocked.pending = []
        return self._unlocked.pending

    def close(self) -> None:
        """Stop timers, take every cluster down and give the workers a moment to notice."""
        self.closing.set()
        for timer in list(self._timers):
            timer.cancel()
        if self.runtime is not None:
            _logged(self.runtime.shutdown)
        for worker in list(self._workers):
            worker.join(timeout=2)


def _logged(function: Callable[[], None]) -> None:
    """Run it; a failure is written down instead of ending the thread without a word."""
    try:
        function()
    except Exception:
        log.exception("background work failed")
