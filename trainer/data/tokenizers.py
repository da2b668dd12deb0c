"""Tokenizers by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer import exits
from trainer.data import shards
from trainer.data.documents import Document, Part, Unfit

Numbers = npt.NDArray[np.integer[Any]]
BYT5 = "byt5"
FILES = (
    "tokenizer",
    "special_tokens",
    "added_tokens",
    "chat_template",
    "vocab",
    "merges",
    "spiece",
    "sentencepiece",
)
"""What the names of a tokenizer's files begin with: a model's folder has others."""
BYT5_SPECIAL, BYT5_END, BYT5_VOCABULARY = 3, 1, 384
"""ByT5 (arXiv 2105.13626): padding, end, unknown; then the 256 bytes; then 125 sentinels."""


@dataclass(frozen=True)
class Tokenizer:
    """What preparation needs of a tokenizer."""

    name: str
    vocabulary: int
    end: int
    """Token put after every document."""
    encode: Callable[[list[str]], list[Numbers]]
    """Texts to token numbers, without special tokens of its own. Many texts at once cost less than one by one."""
    template: Callable[[list[dict[str, str]], bool], str] | None
    """The text of a conversation, and whether the assistant is about to speak; None without a chat template. It
    raises documents.Unfit for a conversation that the template refuses."""

    def documents(self, documents: Sequence[Document]) -> list[tuple[Numbers, npt.NDArray[np.bool_] | None]]:
        """Token numbers of each document with its end, and for each token whether it counts (None: all do).

        Raises what `rendered` raises, for conversations that have not been.
        """
        pieces = [rendered.rendered or rendered.parts for rendered in map(self.rendered, documents)]
        encoded = iter(self.encode([part.text for parts in pieces for part in parts]))
        end = np.array([self.end], dtype=shards.dtype_for(self.vocabulary))
        result = []
        for parts in pieces:
            numbers = [next(encoded) for _ in parts]
            counts = [part.counted for part in parts]
            counted = None
            if not all(counts):
                lengths = [len(piece) for piece in numbers]
                counted = np.repeat([*counts, counts[-1]], [*lengths, 1])
            result.append((np.concatenate([*numbers, end]), counted))
        return result

    def rendered(self, document: Document) -> Document:
        """With the words of the chat template, if it is a conversation.

        Raises documents.Unfit if the template refuses it, exits.Failure if this tokenizer has no template.
        """
        if document.parts[0].role is None or document.rendered is not None:
            return document
        return replace(document, rendered=tuple(self._turns(document.parts)))

    def _turns(self, parts: Sequence[Part]) -> Iterator[Part]:
        """Rendered turn by turn; what a turn adds to the text is that turn's."""
        if self.template is None:
            raise exits.Failure(
                f"data.tokenizer {self.name}: has no chat template for messages", exits.CONFIG
            )
        said: list[dict[str, str]] = []
        done = ""
        for part in parts:
            if part.counted:
                asked = self.template(said, True)
                yield Part(_added(done, asked), counted=False)
                done = asked
            said.append({"role": str(part.role), "content": part.text})
            spoken = self.template(said, False)
            yield Part(_added(done, spoken), part.counted)
            done = spoken


def _added(done: str, text: str) -> str:
    if not text.startswith(done):
        raise Unfit("the chat template changes what it wrote before")
    return text.removeprefix(done)


def load(name: str) -> Tokenizer:
    """`byt5`, or the folder of a Hugging Face tokenizer. Raises exits.Failure if there is no such thing."""
    if name == BYT5:
        return Tokenizer(BYT5, BYT5_VOCABULARY, BYT5_END, _bytes, None)
    if not Path(name).is_dir():
        raise exits.Failure(f"data.tokenizer {name}: neither {BYT5} nor a folder", exits.CONFIG)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=True)
    if tokenizer.eos_token_id is None:
        raise exits.Failure(f"data.tokenizer {name}: has no end-of-document token", exits.CONFIG)
    return Tokenizer(
        name=name,
        vocabulary=len(tokenizer),
        end=int(tokenizer.eos_token_id),
        encode=_batches(tokenizer, shards.dtype_for(len(tokenizer))),
        template=_template(tokenizer) if getattr(tokenizer, "chat_template", None) else None,
    )


def digest(name: str) -> str:
    """Hex SHA-256 of everything that a tokenizer is made of."""
    total = hashlib.sha256()
    if name == BYT5:
        total.update(BYT5.encode())
    else:
        files = (path for path in Path(name).iterdir() if path.name.startswith(FILES))
        for path in sorted(files):
            total.update(f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _bytes(texts: list[str]) -> list[Numbers]:
    """ByT5's numbers of plain text, straight from its bytes. What looks like a special token is text too."""
    return [
        np.frombuffer(text.encode(), dtype=np.uint8).astype(shards.dtype_for(BYT5_VOCABULARY)) + BYT5_SPECIAL
        for text in texts
    ]


def _batches(tokenizer: Any, dtype: str) -> Callable[[list[str]], list[Numbers]]:
    if not tokenizer.is_fast:
        return lambda texts: [
            np.array(tokenizer.encode(text, add_special_tokens=False), dtype=dtype) for text in texts
        ]
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()  # a tokenizer's file may ask for either, and both would spoil a document
    backend.no_padding()
    return lambda texts: [
        np.array(encoding.ids, dtype=dtype)
        for encoding in backend.encode_batch_fast(texts, add_special_tokens=False)
    ]


def _template(tokenizer: Any) -> Callable[[list[dict[str, str]], bool], str]:
    import jinja2

    def render(said: list[dict[str, str]], asked: bool) -> str:
        if not said:
            return ""
        try:
            text: str = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=asked)
        except jinja2.TemplateSyntaxError as error:  # whatever the conversation
            raise exits.Failure(
                f"data.tokenizer {tokenizer.name_or_path}: its chat template is none: {error}", exits.CONFIG
            ) from error
        except (jinja2.TemplateError, TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise Unfit(f"the chat template refuses the conversation: {error}") from error
        return text

    return render
