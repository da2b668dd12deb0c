"""The contender's side of a race: train so many steps, say how long they took, wait for the next go.

Every contender calls `optimizer.step()` once a step, so one hook of PyTorch's times them all by the same clock and
changes none of them. Between rounds a contender waits in a read and uses no CPU.
"""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

ADDRESS = "BENCH_PACE"
"""Environment variable: path of the coordinator's socket. Without it a contender just trains."""


class Pace:
    """Counts steps on this process. `go` messages hold a number of steps; the answers hold seconds."""

    def __init__(self, address: str, name: str, rank: int) -> None:
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(address)
        self._words = self._line.makefile("rw")
        self._say(name=name, rank=rank, pid=os.getpid())
        self._left = 1  # the very first step ends the preparation
        self._began = self._now()

    def step(self, *_: Any) -> None:
        """After each optimiser step."""
        self._left -= 1
        if self._left:
            return
        (seconds, cpu), (began, cpu_began) = self._now(), self._began
        self._say(seconds=seconds - began, cpu_seconds=cpu - cpu_began)
        word = self._words.readline()
        if not word:  # the coordinator has seen enough
            os._exit(0)
        self._left = int(word)
        self._began = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        """Seconds by the wall, and CPU seconds of all threads of this process."""
        return time.perf_counter(), time.process_time()

    def _say(self, **facts: Any) -> None:
        self._words.write(json.dumps(facts) + "\n")
        self._words.flush()


def keep(name: str) -> None:
    """Let the coordinator, if there is one, set this process's pace."""
    address = os.environ.get(ADDRESS)
    if not address:
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(Pace(address, name, int(os.environ["RANK"])).step)
