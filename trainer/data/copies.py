"""A copy of token shards in S3 on a local disk, made before the first step."""

from __future__ import annotations

import hashlib
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from trainer import exits
from trainer.data.places import Bucket, Folder
from trainer.data.shards import Index
from trainer.files import remove_leftovers

FILES_AT_ONCE = 8
READ_BYTES = 16 << 20
"""Of one GET."""


def folder(bucket: Bucket, index: Index, cache: Path) -> Path:
    """Where the copy of such shards is, below `cache`. Other shards have another place."""
    identity = repr((bucket.url, index))
    return cache / hashlib.sha256(identity.encode()).hexdigest()[:24]


def make(bucket: Bucket, index: Index, cache: Path) -> None:
    """Copy what is not there yet. Raises exits.Failure or OSError; another try goes on."""
    target = folder(bucket, index, cache)
    target.mkdir(parents=True, exist_ok=True)
    remove_leftovers(target)
    width = np.dtype(index.dtype).itemsize
    files: list[tuple[str, int, str | None]] = []
    for split in index.splits.values():
        for shard in split.shards:
            files.append((shard.file, shard.tokens * width, shard.sha256))
            if shard.counted:
                files.append((shard.counted, -(-shard.tokens // 8), shard.counted_sha256))
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        list(threads.map(lambda file: _copy(bucket, target, *file), files))
    index.write(Folder(target))


def _copy(bucket: Bucket, target: Path, name: str, size: int, sha256: str | None) -> None:
    path = target / name
    if path.exists() and path.stat().st_size == size:
        return
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=target, prefix=".", suffix=".tmp") as file:
        for first in range(0, size, READ_BYTES):
            block = bucket.objects.read(bucket.key(name), first, min(READ_BYTES, size - first))
            digest.update(block)
            file.write(block)
        file.flush()
        if digest.hexdigest() != sha256:
            raise exits.Failure(
                f"{bucket.url}/{name}: its checksum is not the index's; prepare the data again", exits.CONFIG
            )
        path.unlink(missing_ok=True)
        path.hardlink_to(file.name)
