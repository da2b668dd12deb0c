"""Where documents come from."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainer import exits

SUFFIXES = (".txt", ".jsonl", ".jsonl.gz")


@dataclass(frozen=True)
class Document:
    """One text, with a name that is stable from run to run."""

    name: str
    text: str

    def held_out(self, share: float) -> bool:
        """Whether this document belongs to the held-out split: decided by its name alone, so that adding
        documents never moves one from one split to the other."""
        number = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], "big")
        return number < share * 2**64


def documents(source: Literal["python-documentation"] | Path) -> Iterator[Document]:
    """Every document of a source, in a stable order."""
    if source == "python-documentation":
        yield from _python_documentation()
        return
    folder = Path(source)
    files = (
        sorted(path for path in folder.rglob("*") if path.name.endswith(SUFFIXES)) if folder.is_dir() else []
    )
    if not files:
        raise exits.Failure(f"data.source {folder}: no {', '.join(SUFFIXES)} files there", exits.CONFIG)
    for path in files:
        yield from _file(path, path.relative_to(folder).as_posix())


def _python_documentation() -> Iterator[Document]:
    """The language reference that `help()` shows: 79 topics, 0.5 MB, part of Python's standard library
    (Python Software Foundation licence)."""
    from pydoc_data.topics import topics

    for name in sorted(topics):
        yield Document(name, topics[name])


def _file(path: Path, name: str) -> Iterator[Document]:
    if path.suffix == ".txt":
        yield Document(name, path.read_text())
        return
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                text = json.loads(line)["text"]
            except (ValueError, KeyError, TypeError) as error:
                raise exits.Failure(
                    f"{path}:{number}: expected an object with a text: {error}", exits.CONFIG
                ) from error
            yield Document(f"{name}:{number}", text)
