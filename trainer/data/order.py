"""The order of samples: a pure function, with no state to save.

A shuffled list of n indices takes memory and time in n, and has to be replayed on a restart. A Feistel network is
a permutation that gives any single element in constant time, so step 10^9 of a run is as cheap as step 1.
Reference: Luby and Rackoff 1988; cycle walking from Black and Rogaway 2002.

Samples that lie together are read together: an epoch takes the blocks of a stream in random order, so many at a
time, and mixes the samples of those with one another (as mosaicml-streaming's py1s does). Data that is no larger than
that is permuted as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_WORD = (1 << 64) - 1
_ROUNDS = 4
_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

Places = npt.NDArray[np.int64]


def mix(value: int) -> int:
    """A well spread 64-bit hash of a 64-bit integer (the finaliser of SplitMix64)."""
    value = (value + _GOLDEN) & _WORD
    value = ((value ^ (value >> 30)) * _FIRST) & _WORD
    value = ((value ^ (value >> 27)) * _SECOND) & _WORD
    return value ^ (value >> 31)


def _mix_all(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = values + np.uint64(_GOLDEN)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_FIRST)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_SECOND)
    return values ^ (values >> np.uint64(31))


def permuted(indices: Sequence[int] | npt.NDArray[Any], count: int, key: int) -> Places:
    """Where each of `indices` goes in the permutation of range(count) that `key` selects.

    Raises IndexError for an index outside of it.
    """
    out = np.array(indices, dtype=np.int64)
    if out.size and not 0 <= out.min() <= out.max() < count:
        raise IndexError(f"an index is outside range({count})")
    values = out.astype(np.uint64)
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    keys = [np.uint64(mix(key + turn)) for turn in range(_ROUNDS)]
    walking = np.arange(len(values))
    while walking.size:  # the network permutes range(4**half); walk its cycle until back inside range(count)
        left, right = values[walking] >> shift, values[walking] & mask
        for round_key in keys:
            left, right = right, left ^ (_mix_all(right ^ round_key) & mask)
        values[walking] = left << shift | right
        walking = walking[values[walking] >= count]
    return values.astype(np.int64)


@dataclass(frozen=True)
class Order:
    """An endless stream of epochs over `count` samples. Every epoch holds each sample exactly once, in an order of
    its own."""

    count: int
    seed: int
    block: int
    """Samples that lie together."""
    blocks: int
    """Blocks whose samples are mixed with one another: a group. The last group of an epoch has the rest as well."""

    @property
    def groups(self) -> int:
        """In one epoch."""
        return max(1, self.count // self.block // self.blocks)

    def samples(self, positions: Places) -> Places:
        """Those at any positions (0, 1, 2, …) of the stream."""
        out = np.empty_like(positions)
        groups = self.group(positions)
        for group in np.unique(groups).tolist():
            there = groups == group
            out[there] = self._within(group, positions[there])
        return out

    def group(self, positions: Places) -> Places:
        """Number of the group that each position belongs to, counted over all epochs."""
        epoch, place = np.divmod(positions, self.count)
        return epoch * self.groups + np.minimum(place // (self.block * self.blocks), self.groups - 1)

    def blocks_of(self, group: int) -> list[int]:
        """Numbers of the blocks that a group takes its samples from; block b holds samples b*block …"""
        epoch, number = divmod(group, self.groups)
        whole = self.count // self.block
        tail = [whole] if self.count % self.block else []
        if self.groups == 1:
            return [*range(whole), *tail]
        last = number == self.groups - 1
        slots = range(number * self.blocks, whole if last else (number + 1) * self.blocks)
        return permuted(slots, whole, self._blocks_key(epoch)).tolist() + tail * last

    def _within(self, group: int, positions: Places) -> Places:
        """The samples at positions of one group."""
        epoch, number = divmod(group, self.groups)
        key = mix(mix(self.seed) + epoch)
        first = number * self.block * self.blocks
        size = self.count - first if number == self.groups - 1 else self.block * self.blocks
        places = positions - epoch * self.count - first
        if self.groups == 1:
            return permuted(places, size, key)
        slots, offsets = np.divmod(permuted(places, size, mix(key + number)), self.block)
        slots += number * self.blocks
        whole = self.count // self.block
        numbers = slots.copy()  # what follows the last whole block stays behind it
        numbers[slots < whole] = permuted(slots[slots < whole], whole, self._blocks_key(epoch))
        return numbers * self.block + offsets

    def _blocks_key(self, epoch: int) -> int:
        return mix(~mix(mix(self.seed) + epoch) & _WORD)
