"""Signals from outside: SIGTERM (spot notice, node drain, `kubectl delete`) and Ctrl-C ask for the end, SIGUSR1 for a
profile."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType

REQUESTS = (signal.SIGTERM, signal.SIGINT)
PROFILE = signal.SIGUSR1


class Stop:
    """Remembers what a signal asked for. The loop looks at it once a step, and saves before it leaves.

    It listens from the first step on. Before that there is nothing to save, and the signal's own way is the quickest:
    it ends a process even while it waits for others inside a library.
    """

    def __init__(self) -> None:
        self.requested = False
        self._profile = False

    def listen(self) -> None:
        for number in REQUESTS:
            signal.signal(number, self._note)
        signal.signal(PROFILE, self._note_profile)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [PROFILE])

    def profile(self) -> bool:
        """Whether a profile was asked for since the last call."""
        asked, self._profile = self._profile, False
        return asked

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True

    def _note_profile(self, _number: int, _frame: FrameType | None) -> None:
        self._profile = True


def hold_profile() -> None:
    """Until `listen`, keep a request for a profile, which by itself would end the process. Children inherit that."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [PROFILE])


def pass_profile_on(processes: Callable[[], Iterable[int]]) -> None:
    """Send each request for a profile on to other processes, from a thread, while this program does something else."""
    hold_profile()

    def forward() -> None:
        while True:
            signal.sigwait([PROFILE])
            for process in processes():
                with suppress(OSError):
                    os.kill(process, PROFILE)

    threading.Thread(target=forward, name="profile requests", daemon=True).start()


def children() -> list[int]:
    """Processes that this one started (Linux)."""
    with suppress(OSError):
        numbers = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
        return [int(number) for number in numbers.split()]
    return []


def be_init() -> None:
    """In a container's first process, go on in a child, and end as it does.

    The kernel gives process 1 no signal that it has no handler for, so a pod that waits for its peers, inside torch,
    would sit out its whole grace period. A child has no such privilege. Also collects orphans. Elsewhere: nothing.
    """
    hold_profile()
    if os.getpid() != 1:
        return
    child = os.fork()
    if not child:
        return

    def forward(number: int, _frame: FrameType | None) -> None:
        os.kill(child, number)

    for number in (*REQUESTS, PROFILE):
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [PROFILE])
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
