"""How fast to ask, and when to ask again. Nothing here knows what is asked."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


class Rate:
    """A token bucket that threads share: in any span of T seconds at most `burst + per_second * T` may pass.

    Raises ValueError unless both are positive.
    """

    def __init__(
        self,
        per_second: float,
        burst: float = 1.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if per_second <= 0 or burst < 1:
            raise ValueError(f"a rate of {per_second}/s in bursts of {burst} lets nothing pass")
        self.per_second, self.burst = per_second, burst
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._tokens, self._counted = burst, clock()

    def take(self) -> float:
        """Wait for leave to ask once; returns the seconds waited. Who comes first goes first."""
        with self._lock:
            now = self._clock()
            self._tokens = min(self.burst, self._tokens + (now - self._counted) * self.per_second)
            self._counted = now
            self._tokens -= 1  # below zero: taken from the future, and waited for
            wait = max(0.0, -self._tokens / self.per_second)
        if wait:
            self._sleep(wait)
        return wait


@dataclass(frozen=True)
class Backoff:
    """Pauses between tries: uniform in [0, min(longest, first * 2^n)] seconds before try n + 2 ("full jitter").

    Processes that were turned away together then don't come back together (AWS Architecture Blog, "Exponential
    Backoff And Jitter").
    """

    first: float = 0.2
    longest: float = 20.0

    def pause(self, failures: int, draw: Callable[[float, float], float] = random.uniform) -> float:
        """Seconds to wait after so many failures in a row (1 or more)."""
        return draw(0.0, min(self.longest, self.first * 2.0 ** min(failures - 1, 30)))
