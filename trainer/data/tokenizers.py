"""Tokenizers by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainer import exits


@dataclass(frozen=True)
class Tokenizer:
    """What preparation needs of a tokenizer."""

    name: str
    vocabulary: int
    end: int
    """Token put after every document."""
    encode: Callable[[str], list[int]]
    """Text to token numbers, without special tokens."""


def load(name: str) -> Tokenizer:
    """`byt5`, or the folder of a Hugging Face tokenizer. Raises exits.Failure if there is no such thing."""
    if name == "byt5":
        from transformers.models.byt5.tokenization_byt5 import ByT5Tokenizer

        tokenizer = ByT5Tokenizer()
    else:
        if not Path(name).is_dir():
            raise exits.Failure(f"data.tokenizer {name}: neither byt5 nor a folder", exits.CONFIG)
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=True)
    if tokenizer.eos_token_id is None:
        raise exits.Failure(f"data.tokenizer {name}: has no end-of-document token", exits.CONFIG)
    return Tokenizer(
        name=name,
        vocabulary=len(tokenizer),
        end=int(tokenizer.eos_token_id),
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False),
    )
