"""Refuse to begin what the disk has no room for."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from lab.toolchain.errors import ToolchainError
from lab.toolchain.schedule import Step

MARGIN = 1.0
"""GB that must stay free."""


def check(cache: Path, steps: Iterable[Step], temporary: float) -> None:
    """Raise ToolchainError unless the cache's disk has room for what the steps leave and use meanwhile (GB)."""
    lasting = sum(step.disk for step in steps)
    needed = lasting + temporary + MARGIN
    free = free_gigabytes(cache)
    if free < needed:
        raise ToolchainError(shortage(cache, needed, temporary, free))


def shortage(cache: Path, needed: float, temporary: float, free: float) -> str:
    """The message for a disk that is too small. All in GB."""
    meanwhile = f" ({temporary:.0f} of them only meanwhile)" if temporary >= 1 else ""
    return (
        f"the toolchain needs {needed:.0f} GB on the disk of {cache}{meanwhile}, and {free:.1f} GB are free: "
        "free some, or put the cache on another disk with SHARDYARD_CACHE"
    )


def free_gigabytes(folder: Path) -> float:
    """Of the disk that `folder` is on, or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free / 1e9
