"""One document, and how a record of a file becomes one.

{"text": "…"}                                      every token counts
{"prompt": "…", "answer": "…"}                     only the answer counts
{"messages": [{"role": "user", "content": "…"}]}   only what the assistant says counts; the tokenizer's chat
                                                   template puts the roles into words
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TEXT = "text"
"""Key, or column, of plain texts unless another one is named."""


class Unfit(ValueError):
    """A document that nothing can be made of; the message is the reason, for a person."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a document."""

    text: str
    counted: bool = True
    """Whether the loss is taken on it."""
    role: str | None = None
    """Who says it, where the document is a conversation."""


@dataclass(frozen=True, slots=True)
class Document:
    """One text. What it says is its identity, and where it came from is forgotten, unless it has a name."""

    parts: tuple[Part, ...]
    name: str | None = None
    rendered: tuple[Part, ...] | None = None
    """What a conversation is in the words of a tokenizer's chat template."""

    @property
    def size(self) -> int:
        """Characters."""
        return sum(len(part.text) for part in self.parts)

    def digest(self) -> bytes:
        """16 bytes that two documents share only if they are identical."""
        digest = hashlib.blake2b(digest_size=16)
        for part in self.parts:
            text = part.text.encode()
            digest.update(f"{part.role}:{part.counted}:{len(text)}:".encode())
            digest.update(text)
        return digest.digest()


def held_out(document: Document, digest: bytes, share: float) -> bool:
    """Whether a document with such a digest belongs to the held-out split: decided by its name, or its content, alone.

    So adding documents, or another file format, never moves one from one split to the other, and copies of one are
    never in both.
    """
    if document.name is not None:
        digest = hashlib.sha256(document.name.encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def document(record: Any, text: str = TEXT) -> Document:
    """Raises KeyError, TypeError or ValueError for anything but the three kinds of record."""
    if not isinstance(record, Mapping):
        raise TypeError(f"not a mapping but {record!r:.40}")
    if "messages" in record:
        parts = tuple(
            Part(said["content"], said["role"] == "assistant", said["role"]) for said in record["messages"]
        )
        if not any(part.counted for part in parts):
            raise ValueError("the assistant says nothing")
    elif "prompt" in record:
        parts = (Part(record["prompt"], counted=False), Part(record["answer"]))
    else:
        parts = (Part(record[text]),)
    for part in parts:
        if not isinstance(part.text, str):
            raise TypeError(f"not a text but {part.text!r:.40}")
        part.text.encode()  # half of a surrogate pair, which JSON can spell, is no text either
    return Document(parts)
