"""Which of several sources each sample comes from: a pure function of its position.

The samples are dealt out as evenly as can be. In the first n samples a source of weight w has w*n of them, give or
take less than one (Tijdeman 1980, "The chairman assignment problem"); so in any n samples in a row it has less than
two more or fewer, and of two sources less than one. The pattern repeats after as many samples as the weights have in
common, so any position is found in constant time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from trainer import exits
from trainer.data.order import Places

LONGEST = 100_000
"""Samples before the pattern repeats: weights of five digits."""


def whole(weights: Sequence[float]) -> list[int]:
    """The smallest whole numbers in proportion to weights as they are written: 0.7 and 0.3 are 7 and 3.

    Raises exits.Failure if the weights have too many digits.
    """
    exact = [Fraction(str(weight)) for weight in weights]
    scale = math.lcm(*(weight.denominator for weight in exact))
    numbers = [int(weight * scale) for weight in exact]
    common = math.gcd(*numbers)
    numbers = [number // common for number in numbers]
    if sum(numbers) > LONGEST:
        raise exits.Failure(
            f"data.sources: weights {', '.join(map(str, weights))} add up to {sum(numbers):,} parts of a sample, more "
            f"than {LONGEST:,}: give them fewer digits",
            exits.CONFIG,
        )
    return numbers


class Mixture:
    """The deal."""

    def __init__(self, weights: Sequence[float]) -> None:
        self.shares = np.array(whole(weights), dtype=np.int64)
        self.period = int(self.shares.sum())
        self._sources = _dealt(self.shares.tolist())
        self._before = np.empty(self.period, dtype=np.int64)
        for source in range(len(self.shares)):
            there = self._sources == source
            self._before[there] = np.arange(there.sum())

    def at(self, positions: Places) -> tuple[Places, Places]:
        """The source at each position, and how many samples that source has given before."""
        turns, offsets = np.divmod(positions, self.period)
        sources = self._sources[offsets]
        return sources, turns * self.shares[sources] + self._before[offsets]


def _dealt(shares: Sequence[int]) -> npt.NDArray[np.int64]:
    """One period. Of the sources that may have the next sample without getting ahead of their weight, the one
    that has to have one soonest gets it."""
    total, count = sum(shares), len(shares)
    if count == 1:
        return np.zeros(total, dtype=np.int64)
    slack = 2 * count - 2
    given = [0] * count
    dealt = np.empty(total, dtype=np.int64)
    for turn in range(1, total + 1):
        best = -1
        for source, share in enumerate(shares):
            if (share * turn - total * given[source]) * slack < total:
                continue
            # The sooner its deadline, (given + 1 - 1/slack) / share turns: compared without dividing.
            if (
                best < 0
                or ((given[source] + 1) * slack - 1) * shares[best] < ((given[best] + 1) * slack - 1) * share
            ):
                best = source
        dealt[turn - 1] = best
        given[best] += 1
    return dealt
