"""A folder of files, on a file system or in S3: what sources are read from and shards are written to."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar, cast

from trainer import exits
from trainer.files import create_atomically, write_atomically
from trainer.objects import Address, Missing, Objects, parse

READ_BYTES = 8 << 20
"""Of one request when a source is read in a stream."""
THREADS = 16
"""Connections of one process."""
SWEEPS = 100
"""That a write begins again after."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class File:
    """One file of a place."""

    name: str
    """Below the place, parts separated by slashes."""
    size: int
    """Bytes."""
    tag: str
    """Another one whenever the file was written anew: its time, or S3's ETag."""


class Place(Protocol):
    """Names are relative. Errors of the storage come as OSError or exits.Failure."""

    url: str

    def files(self, below: str = "") -> list[File]:
        """All files under a folder, at any depth, sorted by name; none if there is no such folder."""

    def size(self, name: str) -> int | None:
        """Bytes; None if there is no such file."""

    def open(self, name: str) -> BinaryIO:
        """For reading, seekable."""

    def read(self, name: str) -> bytes | None:
        """All of a file; None if there is none."""

    def write(self, name: str, content: bytes) -> None:
        """Complete or not at all, over whatever was there."""

    def create(self, name: str, content: bytes) -> bool:
        """Complete or not at all, if there is no such file. Of all who try one succeeds; returns whether it was this
        one."""

    def sweep(self) -> None:
        """Remove what writers that were killed have left. Who is writing right now begins again."""


class Folder:
    """A folder of a file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = str(path)

    def files(self, below: str = "") -> list[File]:
        found = []
        for path in (self.path / below).rglob("*"):
            if path.is_file() and not path.name.startswith("."):
                facts = path.stat()
                found.append(
                    File(path.relative_to(self.path).as_posix(), facts.st_size, str(facts.st_mtime_ns))
                )
        return sorted(found, key=lambda file: file.name)

    def size(self, name: str) -> int | None:
        path = self.path / name
        return path.stat().st_size if path.exists() else None

    def open(self, name: str) -> BinaryIO:
        return (self.path / name).open("rb")

    def read(self, name: str) -> bytes | None:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        self._until_not_swept(write_atomically, self.path / name, content)

    def create(self, name: str, content: bytes) -> bool:
        return self._until_not_swept(create_atomically, self.path / name, content)

    @staticmethod
    def _until_not_swept(write: Callable[[Path, bytes], T], path: Path, content: bytes) -> T:
        """Several may find that all is done, write the same index, and sweep: away goes what another is writing."""
        for _ in range(SWEEPS):
            path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                return write(path, content)
        return write(path, content)

    def sweep(self) -> None:
        for path in self.path.rglob(".*.tmp"):
            path.unlink(missing_ok=True)


class Bucket:
    """A prefix in S3. Each process has connections of its own: a forked one must not use its parent's."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.url = str(address)
        self._clients: dict[int, Objects] = {}

    @property
    def objects(self) -> Objects:
        own = os.getpid()
        if own not in self._clients:
            self._clients[own] = Objects(self._address.bucket, threads=THREADS)
        return self._clients[own]

    def key(self, name: str) -> str:
        return self._address.key(name)

    def files(self, below: str = "") -> list[File]:
        prefix = self.key(below)
        start = len(self._address.prefix) + 1 if self._address.prefix else 0
        return [
            File(entry.key[start:], entry.size, entry.tag)
            for entry in self.objects.entries(f"{prefix}/" if prefix else "")
            if not entry.key.endswith("/")  # what consoles make to show a folder
        ]

    def size(self, name: str) -> int | None:
        try:
            return self.objects.size(self.key(name))
        except Missing:
            return None

    def open(self, name: str) -> BinaryIO:
        key = self.key(name)
        raw = _Ranges(self.objects, key, self.objects.size(key))
        return cast(BinaryIO, io.BufferedReader(raw, READ_BYTES))

    def read(self, name: str) -> bytes | None:
        try:
            return self.objects.read(self.key(name))
        except Missing:
            return None

    def write(self, name: str, content: bytes) -> None:
        self.objects.put(self.key(name), content)

    def create(self, name: str, content: bytes) -> bool:
        return self.objects.create(self.key(name), content)

    def sweep(self) -> None:
        """S3 shows nothing of a write that didn't end."""


class _Ranges(io.RawIOBase):
    """An object as a file: each read is one ranged GET."""

    def __init__(self, objects: Objects, key: str, size: int) -> None:
        self._objects, self._key, self._size, self._position = objects, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        count = max(0, min(len(buffer), self._size - self._position))
        buffer[:count] = self._objects.read(self._key, self._position, count)
        self._position += count
        return count


def place(url: str | Path) -> Place:
    """A local folder or `s3://bucket/prefix`. Raises exits.Failure for an address of any other kind."""
    text = str(url)
    if "://" not in text:
        return Folder(Path(text))
    try:
        return Bucket(parse(text))
    except ValueError as error:
        raise exits.Failure(str(error), exits.CONFIG) from None
