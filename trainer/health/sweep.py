"""Bandwidth of collectives, measured.

Bus bandwidth as nccl-tests defines it (doc/PERFORMANCE.md), so that it can be compared with the hardware whatever
the number of processes: all-reduce bytes / seconds x 2 (n-1) / n, all-gather bytes of the result / seconds x (n-1) / n.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

WARM_UP, REPEATS = 2, 5


def bus_bandwidth(kind: str, size: int, seconds: float, processes: int) -> float:
    """GB/s (10^9 bytes). `size` in bytes is what every process ends up with."""
    factor = {"all_reduce": 2 * (processes - 1) / processes, "all_gather": (processes - 1) / processes}[kind]
    return size / seconds * factor / 1e9


def measure(
    kind: str, sizes: Sequence[int], ranks: Sequence[int], group: dist.ProcessGroup, device: torch.device
) -> dict[int, float]:
    """Bus bandwidth by size, of the slowest process of the group; call on all of its processes."""
    result = {}
    for size in sizes:
        count = size // 4 // len(ranks) * len(ranks)
        whole = torch.zeros(count, dtype=torch.float32, device=device)
        part = torch.zeros(count // len(ranks), dtype=torch.float32, device=device)
        operation = _operation(kind, whole, part, group)
        for _ in range(WARM_UP):
            operation()
        _settle(device)
        began = time.perf_counter()
        for _ in range(REPEATS):
            operation()
        _settle(device)
        slowest = torch.tensor([(time.perf_counter() - began) / REPEATS], dtype=torch.float64, device=device)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=group)
        result[size] = bus_bandwidth(kind, 4 * count, float(slowest), len(ranks))
    return result


def _operation(
    kind: str, whole: torch.Tensor, part: torch.Tensor, group: dist.ProcessGroup
) -> Callable[[], object]:
    if kind == "all_reduce":
        return lambda: dist.all_reduce(whole, group=group)
    return lambda: dist.all_gather_into_tensor(whole, part, group=group)


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
