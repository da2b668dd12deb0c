"""Batches for one process: its part of the global batch of any step, without state."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from trainer import exits
from trainer.data import order, shards

IGNORED = -100
"""Target that counts for nothing (PyTorch's cross entropy leaves it out by default)."""


@dataclass(frozen=True)
class Micro:
    """What goes through the model at once. Both tensors are int64 on the CPU, (sequences, tokens)."""

    inputs: torch.Tensor
    targets: torch.Tensor

    @property
    def counted(self) -> int:
        """Targets that carry loss."""
        return int((self.targets != IGNORED).sum())


class Batches:
    """The split of a stream into windows of `sequence` tokens, and of each step's windows over the processes.

    Window i holds tokens i*sequence … (i+1)*sequence, the last of which is only a target: windows overlap by
    one token, so every token but the first is predicted once an epoch.
    """

    def __init__(self, stream: shards.Stream, sequence: int, *, rank: int, world: int, micro: int) -> None:
        self._stream = stream
        self._sequence = sequence
        self._rank, self._world, self._micro = rank, world, micro
        self.windows = max(0, (len(stream) - 1) // sequence)

    def step(self, step: int, batch: int, seed: int) -> list[Micro]:
        """This process's share of optimiser step `step` (from 1 on), of `batch` sequences over all processes."""
        return self.share(order.samples_of_step(step, batch, self.windows, seed))

    def evenly(self, count: int) -> list[Micro]:
        """This process's share of `count` windows spread evenly over the stream, always the same ones."""
        count = min(count, self.windows)
        return self.share([i * self.windows // count for i in range(count)])

    def share(self, windows: list[int]) -> list[Micro]:
        """Deal windows out to the processes, in as many passes for each.

        Where they don't come out even, the missing places are filled with rows without any target. Losses
        are weighted by the number of targets, so those rows change nothing, and any number of processes works.
        """
        mine = windows[self._rank :: self._world]
        passes = -(-len(windows) // (self._world * self._micro))
        inputs = np.zeros((passes * self._micro, self._sequence), dtype=np.int64)
        targets = np.full_like(inputs, IGNORED)
        for row, window in enumerate(mine):
            start = window * self._sequence
            tokens = self._stream.read(start, self._sequence + 1)
            counted = self._stream.counted(start + 1, self._sequence)
            inputs[row], targets[row] = tokens[:-1], np.where(counted, tokens[1:], IGNORED)
        return [
            Micro(
                torch.from_numpy(inputs[first : first + self._micro]),
                torch.from_numpy(targets[first : first + self._micro]),
            )
            for first in range(0, len(inputs), self._micro)
        ]


def check(index: shards.Index, stream_windows: int, *, vocabulary: int, sequence: int) -> None:
    """Raises exits.Failure where data and model don't fit together."""
    if index.vocabulary > vocabulary:
        raise exits.Failure(
            f"data has token numbers up to {index.vocabulary - 1}, but model.vocabulary is {vocabulary}",
            exits.CONFIG,
        )
    if not stream_windows:
        raise exits.Failure(
            f"the training text is shorter than one sequence of {sequence} tokens", exits.CONFIG
        )
