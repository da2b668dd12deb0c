"""Requests from outside to end: SIGTERM (spot notice, node drain, `kubectl delete`) and Ctrl-C."""

from __future__ import annotations

import signal
from types import FrameType


class Stop:
    """Remembers that a signal asked for the end. The loop looks at it once a step and saves before it leaves."""

    def __init__(self) -> None:
        self.requested = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
