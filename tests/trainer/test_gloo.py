"""What FSDP has processes exchange over gloo: the same numbers as PyTorch's own way."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

WORLD, EACH = 3, 1000


def exchange(rank: int, folder: Path) -> list[str]:
    """What differs from PyTorch's own, in one of the processes."""
    import torch
    import torch.distributed as dist

    from trainer import gloo

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    group, device = dist.group.WORLD, torch.device("cpu")
    assert group is not None
    different = []
    for dtype in (torch.float32, torch.bfloat16):
        every = torch.arange(WORLD * WORLD * EACH).view(WORLD, -1).sin().to(dtype)
        scatter, gather = gloo.ReduceScatter(), gloo.AllGather()
        part = scatter.allocate((EACH,), dtype=dtype, device=device)
        scatter(part, every[rank].clone(), group, dist.ReduceOp.SUM)
        expected = every[0]
        for other in every[1:]:
            expected = expected + other
        if not torch.equal(part, expected.view(WORLD, -1)[rank]):
            different.append(f"sums in {dtype}")

        whole = gather.allocate((WORLD * EACH,), dtype=dtype, device=device)
        work = gather(whole, part, group)
        assert work is not None, "FSDP would not wait for it"
        work.wait()
        if not torch.equal(whole, expected):
            different.append(f"everybody's parts in {dtype}")
    with pytest.raises(NotImplementedError, match="only sums"):
        scatter(part, every[rank], group, dist.ReduceOp.AVG)
    dist.destroy_process_group()
    return different


def test_sums_in_the_order_of_ranks_and_parts_of_everybody(tmp_path: Path) -> None:
    with ProcessPoolExecutor(WORLD, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(exchange, range(WORLD), [tmp_path] * WORLD, timeout=300))
    assert found == [[]] * WORLD
