"""The health check on a machine one of whose processes is slow.

python -m trainer.launch … -m tests.trainer.slow_node RANK [the check's options]
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from trainer.health import __main__ as health
from trainer.health import sweep

DELAY = 0.2
"""Seconds before each collective of the slow process."""


def main(slow: int, arguments: list[str]) -> int:
    original = sweep._operation

    def delayed(*settings: Any) -> Any:
        operation = original(*settings)

        def wait() -> None:
            time.sleep(DELAY)
            operation()

        return wait

    if int(os.environ["RANK"]) == slow:
        sweep._operation = delayed
    return health.main(arguments)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
