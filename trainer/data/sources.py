"""What there is to prepare, cut into units of work that follow from the list of files alone.

A unit is a run of whole files, or a slice of one that can be cut (readers.py). Everybody who lists the source gets
the same units under the same numbers, so that nobody has to be told which are theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainer import exits
from trainer.data.documents import Document, Part
from trainer.data.places import File, Folder, Place, place
from trainer.data.readers import CAN_BE_CUT, SUFFIXES, Reader, Slice

PYTHON = "python-documentation"
"""The language reference that `help()` shows: 79 topics, 0.5 MB, part of Python's standard library
(Python Software Foundation licence)."""


@dataclass(frozen=True)
class Unit:
    """Work that is done, noted and done again as one."""

    number: int
    slices: tuple[Slice, ...]
    """None for the source that is no files."""

    @property
    def bytes(self) -> int:
        return sum(one.last - one.first for one in self.slices)

    def digest(self) -> str:
        """Of what the unit reads: another one if a file of it has changed."""
        return hashlib.sha256(repr(self.slices).encode()).hexdigest()


@dataclass(frozen=True)
class Source:
    """A place and the files in it; PYTHON has none."""

    name: str
    place: Place
    files: tuple[File, ...]

    def units(self, size: int) -> Iterator[Unit]:
        """Units of about `size` bytes. A compressed file is never cut, and may make one that is larger."""
        number = 0
        waiting: list[Slice] = []
        if not self.files:
            yield Unit(0, ())
        for file in self.files:
            cut = file.size > size and file.name.endswith(CAN_BE_CUT)
            if waiting and (cut or sum(one.last for one in waiting) + file.size > size):
                yield Unit(number, tuple(waiting))
                number, waiting = number + 1, []
            if not cut:
                waiting.append(Slice(file, 0, file.size))
                continue
            for first in range(0, file.size, size):
                yield Unit(number, (Slice(file, first, min(first + size, file.size)),))
                number += 1
        if waiting:
            yield Unit(number, tuple(waiting))

    def documents(self, unit: Unit, reader: Reader) -> Iterator[Document]:
        if not self.files:
            yield from _python_documentation()
        for one in unit.slices:
            yield from reader.documents(one)


def open_source(name: str | Path) -> Source:
    """Raises exits.Failure if there is nothing to prepare."""
    if name == PYTHON:
        return Source(PYTHON, Folder(Path()), ())
    where = place(name)
    files = tuple(file for file in where.files() if file.name.endswith(SUFFIXES))
    if not files:
        raise exits.Failure(f"data.source {name}: no {', '.join(SUFFIXES)} files there", exits.CONFIG)
    return Source(str(name), where, files)


def documents(name: str | Path) -> Iterator[Document]:
    """Every document of a source, in a stable order."""
    source = open_source(name)
    reader = Reader(source.place)
    for unit in source.units(1 << 40):
        yield from source.documents(unit, reader)


def _python_documentation() -> Iterator[Document]:
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield Document((Part(topics[name]),), name)
