"""Wait for what happens elsewhere: in a thread, another process or a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def eventually(ask: Callable[[], Answer], seconds: float = 60) -> Answer:
    """The first answer that is true. The limit only ends a test that would hang: it says nothing of speed."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"not so within {seconds:g} s; the last answer: {answer!r}"
        time.sleep(0.05)
    return answer
