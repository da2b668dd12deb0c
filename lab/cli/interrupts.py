"""What ^C does. A closed terminal (SIGHUP) and `kill` (SIGTERM) do the same."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from lab.cli.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAITING = "Waiting for the engine to finish what it has begun; ^C again to end it now."


def install() -> None:
    """Make every one of the signals raise KeyboardInterrupt, but for those that the caller ignores (nohup)."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


@contextmanager
def next_step(message: str) -> Iterator[None]:
    """Turn an interrupt of the block into an error that says what to type next."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(message) from None


class ForwardedInterrupts:
    """While this context is active, the first ^C is passed on to the engine, and the second one kills it.

    The engine must lead a session of its own: in ours, the terminal would send it each ^C as well, and the engine
    takes a second SIGINT as an order to abandon what it is doing.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.count = 0
        self._say = say
        self._engine: subprocess.Popen[Any] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> ForwardedInterrupts:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def forward_to(self, engine: subprocess.Popen[Any]) -> None:
        """Call it once the engine runs; a ^C that came before is passed on now."""
        self._engine = engine
        if self.count:
            self._forward()

    def _received(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self._forward()

    def _forward(self) -> None:
        engine = self._engine
        if engine is None or engine.poll() is not None:
            return
        if self.count > 1:
            with suppress(ProcessLookupError):
                os.killpg(engine.pid, signal.SIGKILL)
            return
        engine.send_signal(signal.SIGINT)
        with suppress(OSError):  # the terminal is gone
            self._say(WAITING)
