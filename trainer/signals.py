"""Requests from outside to end: SIGTERM (spot notice, node drain, `kubectl delete`) and Ctrl-C."""

from __future__ import annotations

import os
import signal
from types import FrameType

REQUESTS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Remembers that a signal asked for the end. The loop looks at it once a step and saves before it leaves.

    It listens from the first step on. Before that there is nothing to save, and the signal's own way is the quickest:
    it ends a process even while it waits for others inside a library.
    """

    def __init__(self) -> None:
        self.requested = False

    def listen(self) -> None:
        for number in REQUESTS:
            signal.signal(number, self._note)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True


def be_init() -> None:
    """In a container's first process, go on in a child, and end as it does.

    The kernel gives process 1 no signal that it has no handler for, so a pod that waits for its peers, inside torch,
    would sit out its whole grace period. A child has no such privilege. Also collects orphans. Elsewhere: nothing.
    """
    if os.getpid() != 1:
        return
    child = os.fork()
    if not child:
        return

    def forward(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in REQUESTS:
        signal.signal(number, forward)
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
