"""The health check on a machine one of whose processes has a fault in the middle of a measurement.

python -m trainer.launch … -m tests.trainer.faulty_node FAULT RANK [the check's options]

`together` is no fault: every process waits in a measurement until all are in one. `libraries` gives the process a
plugin of NCCL that is older than that of the others, which itself is older than the pinned one.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer import exits, versions
from trainer.health import __main__ as health
from trainer.health import sweep

DELAY = 0.2
"""Seconds before each collective of the slow process."""
SECOND = 2
"""Measurement in which all faults but `slow` happen."""


def fail() -> None:
    raise ArithmeticError("a cosmic ray")


def together() -> None:
    """Go on when all processes have come here."""
    folder = Path(os.environ["TOGETHER"])
    (folder / os.environ["RANK"]).touch()
    while len(list(folder.iterdir())) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.05)


FAULTS: dict[str, Callable[[], None]] = {
    "slow": lambda: time.sleep(DELAY),
    "raise": fail,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "hang": lambda: time.sleep(1e6),
    "together": together,
    "orphan": lambda: os.kill(os.getppid(), signal.SIGKILL),
    "unjudged": lambda: os.kill(os.getppid(), signal.SIGSTOP),
}


def main(arguments: list[str]) -> int:
    fault, rank, options = arguments[0], int(arguments[1]), arguments[2:]
    original = sweep._operation
    measurements = 0

    def faulty(*settings: Any) -> Any:
        nonlocal measurements
        measurements += 1
        operation = original(*settings)
        if fault != "slow" and measurements != SECOND:
            return operation

        def then() -> None:
            FAULTS[fault]()
            operation()

        return then

    if fault == "libraries":
        plugin = "1.9.0" if int(os.environ["RANK"]) == rank else "1.14.0"
        versions.native = lambda *_: {"aws-ofi-nccl": plugin}
    elif int(os.environ["RANK"]) == rank or fault == "together":
        sweep._operation = faulty
    return health.main(options)


if __name__ == "__main__":
    exits.at_once(main(sys.argv[1:]))
