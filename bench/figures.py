"""Numbers from rounds, and the tables that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Spread:
    """A median with the range it comes from."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median(values), min(values), max(values))

    def show(self, digits: int = 0) -> str:
        return f"{self.median:,.{digits}f} ({self.low:,.{digits}f}-{self.high:,.{digits}f})"


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """How many times faster ours is: the ratio of each round's seconds, theirs over ours."""
    return Spread.of([their / our for our, their in zip(ours, theirs, strict=True)])


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text; all but the first to the right."""
    everything = [header, *rows]
    widths = [max(len(row[place]) for row in everything) for place in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in everything
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)
