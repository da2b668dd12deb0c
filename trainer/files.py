"""Writing files so that a crash leaves the old one or the new one, never a part."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LEFT_SECONDS = 3600.0
"""Nobody writes a file for that long without a word."""


def write_atomically(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Write beside the target, flush to the disk (if durable), rename over it."""
    with _written_beside(path, content, durable) as beside:
        beside.replace(path)
    if durable:
        sync_folder(path.parent)


def create_atomically(path: Path, content: str | bytes) -> bool:
    """The same, unless there is such a file already. Of all who try, wherever they run, one succeeds; returns whether
    it was this one."""
    with _written_beside(path, content, durable=True) as beside:
        try:
            path.hardlink_to(beside)
        except FileExistsError:
            return False
    sync_folder(path.parent)
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove what writers in this folder that were killed have left: temporary files untouched for an hour."""
    for beside in folder.glob(".*.tmp"):
        with suppress(OSError):
            if time.time() - beside.stat().st_mtime > LEFT_SECONDS:
                beside.unlink()


@contextmanager
def _written_beside(path: Path, content: str | bytes, durable: bool) -> Iterator[Path]:
    """A file for the time of the body. Its name is random: on a file system that many machines share, processes have
    the same number, in pods even the same small one."""
    data = content.encode() if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with beside.open("xb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield beside
    finally:
        beside.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
