"""Memory that this process uses."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import torch


def used(device: torch.device) -> dict[str, int]:
    """Bytes, by PyTorch's names: on a GPU of its allocator, else of the resident set, which has nothing reserved.

    `peak` is the highest `allocated` since the start; `retries` counts how often the allocator had to give cached
    memory back before it could serve, which costs time and comes before running out.
    """
    if device.type == "cuda":
        statistics = torch.cuda.memory_stats(device)
        return {
            "allocated": statistics["allocated_bytes.all.current"],
            "reserved": statistics["reserved_bytes.all.current"],
            "peak": statistics["allocated_bytes.all.peak"],
            "retries": statistics["num_alloc_retries"],
        }
    resident = (
        int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        if Path("/proc").exists()
        else 0
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"allocated": resident, "reserved": resident, "peak": max(peak, resident), "retries": 0}
