"""Where documents come from.

.txt               one document
.jsonl, .jsonl.gz  one document a line:
    {"text": "…"}                                      every token counts
    {"prompt": "…", "answer": "…"}                     only the answer counts
    {"messages": [{"role": "user", "content": "…"}]}   only what the assistant says counts; the tokenizer's chat
                                                       template puts the roles into words
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainer import exits

SUFFIXES = (".txt", ".jsonl", ".jsonl.gz")


@dataclass(frozen=True)
class Part:
    """A piece of a document."""

    text: str
    counted: bool = True
    """Whether the loss is taken on it."""
    role: str | None = None
    """Who says it, where the document is a conversation."""


@dataclass(frozen=True)
class Document:
    """One text, with a name that is stable from run to run."""

    name: str
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        """Characters."""
        return sum(len(part.text) for part in self.parts)

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
        yield Document(name, (Part(topics[name]),))


def _file(path: Path, name: str) -> Iterator[Document]:
    if path.suffix == ".txt":
        yield Document(name, (Part(path.read_text()),))
        return
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                parts = _parts(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise exits.Failure(
                    f"{path}:{number}: expected a text, a prompt and an answer, or messages ({error!r})",
                    exits.CONFIG,
                ) from error
            yield Document(f"{name}:{number}", parts)


def _parts(line: Any) -> tuple[Part, ...]:
    """Raises KeyError, TypeError or ValueError for anything but the three kinds of line."""
    if "messages" in line:
        parts = tuple(
            Part(said["content"], said["role"] == "assistant", said["role"]) for said in line["messages"]
        )
        if not any(part.counted for part in parts):
            raise ValueError("the assistant says nothing")
    elif "prompt" in line:
        parts = (Part(line["prompt"], counted=False), Part(line["answer"]))
    else:
        parts = (Part(line["text"]),)
    if not all(isinstance(part.text, str) for part in parts):
        raise TypeError("not a text")
    return parts
