"""The order of samples: a pure function, with no state to save.

A shuffled list of n indices takes memory and time in n, and has to be replayed on a restart. A Feistel network is
a permutation that gives any single element in constant time, so step 10^9 of a run is as cheap as step 1.
Reference: Luby and Rackoff 1988; cycle walking from Black and Rogaway 2002.
"""

from __future__ import annotations

_WORD = (1 << 64) - 1
_ROUNDS = 4


def mix(value: int) -> int:
    """A well spread 64-bit hash of a 64-bit integer (the finaliser of SplitMix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _WORD
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _WORD
    return value ^ (value >> 31)


def permuted(index: int, count: int, key: int) -> int:
    """Where `index` goes in the permutation of range(count) that `key` selects."""
    if not 0 <= index < count:
        raise IndexError(f"index {index} outside range({count})")
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:  # the network permutes range(4**half); walk its cycle until back inside range(count)
        left, right = index >> half, index & mask
        for turn in range(_ROUNDS):
            left, right = right, left ^ (mix(right ^ mix(key + turn)) & mask)
        index = left << half | right
        if index < count:
            return index


def sample(position: int, count: int, seed: int) -> int:
    """The sample at `position` (0, 1, 2, …) of an endless stream of epochs over `count` samples.

    Every epoch holds each sample exactly once, in an order of its own.
    """
    epoch, place = divmod(position, count)
    return permuted(place, count, mix(mix(seed) + epoch))


def samples_of_step(step: int, batch: int, count: int, seed: int) -> list[int]:
    """The `batch` samples of optimiser step `step` (the first step is 1)."""
    first = (step - 1) * batch
    return [sample(position, count, seed) for position in range(first, first + batch)]
