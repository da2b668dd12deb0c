"""Batches for one process: its part of the global batch of any step, without state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from trainer import exits
from trainer.config import Shuffle
from trainer.data.mixture import Mixture
from trainer.data.order import Order, Places, mix
from trainer.data.shards import Index, Readable

IGNORED = -100
"""Target that counts for nothing (PyTorch's cross entropy leaves it out by default)."""
RUNS = 64
"""Places of a stream that an evaluation reads at."""


@dataclass(frozen=True)
class Micro:
    """What goes through the model at once. Both tensors are int64 on the CPU, (sequences, tokens)."""

    inputs: torch.Tensor
    targets: torch.Tensor
    counted: int
    """Targets that carry loss."""


class Batches:
    """The split of streams into windows of `sequence` tokens, and of each step's windows over the processes.

    Window i of a stream holds tokens i*sequence … (i+1)*sequence, the last of which is only a target: windows overlap
    by one token, so every token but the first is predicted once an epoch. Several streams are mixed by weight, each
    with epochs and an order of its own.
    """

    def __init__(
        self,
        streams: Readable | Sequence[Readable],
        sequence: int,
        *,
        rank: int,
        world: int,
        micro: int,
        weights: Sequence[float] = (1.0,),
        shuffle: Shuffle | None = None,
    ) -> None:
        self._streams = list(streams) if isinstance(streams, Sequence) else [streams]
        self._sequence = sequence
        self._rank, self._world, self._micro = rank, world, micro
        self._mixture = Mixture(weights)
        self._shuffle = shuffle or Shuffle()
        self._block = block_windows(self._shuffle, sequence)
        self._groups: dict[int, tuple[int, int]] = {}
        self.windows_of = [max(0, (len(stream) - 1) // sequence) for stream in self._streams]
        self.windows = sum(self.windows_of)
        self._orders = lru_cache(1)(self._orders_for)

    def step(self, step: int, batch: int, seed: int) -> list[Micro]:
        """This process's share of optimiser step `step` (from 1 on), of `batch` sequences over all processes."""
        first = (step - 1) * batch
        positions = np.arange(first + self._rank, first + batch, self._world)
        sources, places = self._mixture.at(positions)
        windows = np.empty_like(places)
        for source, order in enumerate(self._orders(seed)):
            there = sources == source
            if there.any():
                self._announce(source, order, places[there])
                windows[there] = order.samples(places[there])
        return self._micros(sources, windows, batch)

    def evenly(self, count: int) -> list[Micro]:
        """This process's share of `count` windows, each stream's spread evenly over it, always the same ones.

        Many windows are read in runs, so that they don't lie in a block each.
        """
        sources, _ = self._mixture.at(np.arange(count))
        chosen = [
            (source, window)
            for source, windows in enumerate(self.windows_of)
            for window in _spread(int((sources == source).sum()), windows)
        ]
        pairs = np.array(chosen, dtype=np.int64).reshape(-1, 2)
        for source, stream in enumerate(self._streams):
            stream.expect(sorted({w // self._block for s, w in chosen if s == source}), ())
        mine = pairs[self._rank :: self._world]
        return self._micros(mine[:, 0], mine[:, 1], len(pairs))

    def share(self, windows: Sequence[int]) -> list[Micro]:
        """This process's share of windows of the first stream."""
        mine = np.array(windows[self._rank :: self._world], dtype=np.int64)
        return self._micros(np.zeros_like(mine), mine, len(windows))

    def _orders_for(self, seed: int) -> list[Order]:
        """Of each stream. Streams of the same length must not go through their windows in the same order."""
        return [
            Order(windows, mix(seed ^ mix(source)) if source else seed, self._block, self._shuffle.blocks)
            for source, windows in enumerate(self.windows_of)
        ]

    def _announce(self, source: int, order: Order, places: Places) -> None:
        """Tell a stream which blocks come next, when another group of them begins. Those of the group before may still
        be needed by a process that is a step behind."""
        groups = order.group(places)
        first, last = int(groups.min()), int(groups.max())
        if self._groups.get(source) != (first, last):
            self._groups[source] = (first, last)
            blocks = [block for group in range(first, last + 2) for block in order.blocks_of(group)]
            self._streams[source].expect(list(dict.fromkeys(blocks)), order.blocks_of(max(0, first - 1)))

    def _micros(self, sources: Places, windows: Places, of_all: int) -> list[Micro]:
        """Read this process's rows, in as many passes as every other process makes.

        Where windows don't come out even, the missing places are filled with rows without any target. Losses are
        weighted by the number of targets, so those rows change nothing, and any number of processes works.
        """
        passes = -(-of_all // (self._world * self._micro))
        shape = (passes * self._micro, self._sequence)
        inputs, targets = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
        masked = np.zeros(shape[0], dtype=np.int64)
        for row, (source, window) in enumerate(zip(sources.tolist(), windows.tolist(), strict=True)):
            tokens, counted = self._streams[source].span(window * self._sequence, self._sequence + 1)
            inputs[row], targets[row] = tokens[:-1], tokens[1:]
            if counted is not None:
                targets[row, ~counted[1:]] = IGNORED
                masked[row] = self._sequence - np.count_nonzero(counted[1:])
        inputs[len(windows) :], targets[len(windows) :] = 0, IGNORED
        masked[len(windows) :] = self._sequence
        size = self._micro
        return [
            Micro(
                torch.from_numpy(inputs[first : first + size]),
                torch.from_numpy(targets[first : first + size]),
                size * self._sequence - int(masked[first : first + size].sum()),
            )
            for first in range(0, len(inputs), size)
        ]


def block_windows(shuffle: Shuffle, sequence: int) -> int:
    """Windows that lie together."""
    return max(1, shuffle.block // sequence)


def _spread(count: int, windows: int) -> list[int]:
    """`count` different windows (all, if there are fewer) spread evenly."""
    count = min(count, windows)
    if count <= RUNS or 2 * count > windows:
        return [number * windows // count for number in range(count)]
    return [
        run * windows // RUNS + offset
        for run in range(RUNS)
        for offset in range(count // RUNS + (run < count % RUNS))
    ]


def check(index: Index, windows: int, *, name: str, vocabulary: int, sequence: int) -> None:
    """Raises exits.Failure where data (which the job file calls `name`) and model don't fit together."""
    if index.vocabulary > vocabulary:
        raise exits.Failure(
            f"{name} has token numbers up to {index.vocabulary - 1}, but model.vocabulary is {vocabulary}",
            exits.CONFIG,
        )
    if not windows:
        raise exits.Failure(
            f"{name}: the training text is shorter than one sequence of {sequence} tokens", exits.CONFIG
        )
