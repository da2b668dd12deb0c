"""Which process is slow.

The processes of a step wait for each other inside collectives, so by the whole step all are equally slow. What tells
them apart is time without waiting: to read the data, and inside the blocks' forward passes, which FSDP has gathered
the parameters for before they begin. (With tensor parallelism blocks wait for each other inside: then the whole
group of a slow process is slow.) A GPU that is throttled and a CPU that is busy with something else both show.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from trainer.stopwatch import mark

NEGLIGIBLE = 0.05
"""Share of a step below which nobody is called slow, whatever the ratio."""


@dataclass(frozen=True)
class Spread:
    """One number, seconds of a step, over all processes."""

    least: float
    middle: float
    """The median."""
    most: float
    slowest: int
    """Rank that has the most."""
    ratio: float
    """The most to the median of the others; 1 for a process alone."""

    def straggles(self, factor: float, step: float) -> bool:
        """Whether the slowest holds the others up by `factor`, and by more than a negligible part of a step."""
        typical = self.most / self.ratio
        return self.ratio > factor and self.most - typical > NEGLIGIBLE * step


def spread(values: Sequence[float]) -> Spread:
    """`values` by rank."""
    slowest = max(range(len(values)), key=values.__getitem__)
    others = [value for rank, value in enumerate(values) if rank != slowest]
    typical = median(others) if others else values[slowest]
    ratio = max(1.0, values[slowest] / typical) if typical > 0 else 1.0
    return Spread(min(values), median(values), values[slowest], slowest, ratio)


def gather(group: dist.ProcessGroup, mine: Sequence[float]) -> list[list[float]]:
    """Each number of `mine` by rank: one small exchange between CPUs."""
    own = torch.tensor(mine, dtype=torch.float64)
    table = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
    dist.all_gather(table, own, group=group)
    return torch.stack(table).T.tolist()


class Compute:
    """Seconds inside the forward passes of some (sharded) blocks, since the last call of `seconds`."""

    def __init__(self, blocks: Sequence[nn.Module], device: torch.device) -> None:
        self._on_device = device.type == "cuda"
        self._sum = 0.0
        self._began = 0.0
        self._first: torch.cuda.Event | None = None
        self._marks: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        for block in blocks:  # after FSDP has gathered, and before it gives back
            block.register_forward_pre_hook(torch.compiler.disable(self._enter))
            block.register_forward_hook(torch.compiler.disable(self._leave), prepend=True)

    def _enter(self, *_: Any) -> None:
        # A recomputation may break off as soon as it has what it needs: then nobody leaves, and the next one enters.
        self._began = time.perf_counter()
        self._first = mark() if self._on_device else None

    def _leave(self, block: nn.Module, *_: Any) -> None:
        if not block.training:  # an evaluation is not part of a step
            return
        if self._first is not None:
            self._marks.append((self._first, mark()))
        else:
            self._sum += time.perf_counter() - self._began

    def seconds(self) -> float:
        """Waits for the device."""
        for first, last in self._marks:
            last.synchronize()
            self._sum += first.elapsed_time(last) / 1000
        self._marks.clear()
        total, self._sum = self._sum, 0.0
        return total
