"""How far a preparation is, in lines for people."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field

SECONDS = 10.0
"""Between two lines."""


@dataclass
class Meter:
    """Counts what is done against what there is to do."""

    bytes_to_do: int
    documents: int = 0
    tokens: int = 0
    bytes: int = 0
    began: float = field(default_factory=time.monotonic)
    _said: float = field(default_factory=time.monotonic)

    def add(self, documents: int, tokens: int, bytes_: int) -> None:
        self.documents += documents
        self.tokens += tokens
        self.bytes += bytes_
        self.say()

    def say(self) -> None:
        """A line, if the last one is long enough ago."""
        now = time.monotonic()
        if now - self._said >= SECONDS:
            self._said = now
            print(self.line(now - self.began), file=sys.stderr, flush=True)

    def line(self, seconds: float) -> str:
        share = self.bytes / self.bytes_to_do if self.bytes_to_do else 1.0
        left = f"{_clock(seconds / share - seconds)} left" if share else "time left unknown"
        return (
            f"{100 * share:5.1f} % | {self.documents:,} documents | {self.tokens:,} tokens | "
            f"{self.tokens / seconds:,.0f} tokens/s | {left}"
        )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(max(0.0, seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"
