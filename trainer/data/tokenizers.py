"""Tokenizers by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer import exits
from trainer.data.sources import Part


@dataclass(frozen=True)
class Tokenizer:
    """What preparation needs of a tokenizer."""

    name: str
    vocabulary: int
    end: int
    """Token put after every document."""
    encode: Callable[[str], list[int]]
    """Text to token numbers, without special tokens."""
    template: Callable[[list[dict[str, str]], bool], str] | None
    """The text of a conversation, and whether the assistant is about to speak; None without a chat template."""

    def document(self, parts: Sequence[Part]) -> tuple[list[int], list[bool]]:
        """Token numbers of a whole document with its end, and for each whether it counts.

        Raises exits.Failure for a conversation that this tokenizer has no template for.
        """
        numbers: list[int] = []
        counted: list[bool] = []
        for text, counts in self._texts(parts):
            piece = self.encode(text)
            numbers += piece
            counted += [counts] * len(piece)
        return [*numbers, self.end], [*counted, parts[-1].counted]

    def _texts(self, parts: Sequence[Part]) -> Iterator[tuple[str, bool]]:
        """A conversation is rendered turn by turn; what a turn adds to the text is that turn's."""
        if parts[0].role is None:
            yield from ((part.text, part.counted) for part in parts)
            return
        if self.template is None:
            raise exits.Failure(
                f"data.tokenizer {self.name}: has no chat template for messages", exits.CONFIG
            )
        said: list[dict[str, str]] = []
        done = ""
        for part in parts:
            if part.counted:
                asked = self.template(said, True)
                yield asked.removeprefix(done), False
                done = asked
            said.append({"role": str(part.role), "content": part.text})
            spoken = self.template(said, False)
            if not spoken.startswith(done):
                raise exits.Failure(
                    f"data.tokenizer {self.name}: its chat template changes what it wrote before",
                    exits.CONFIG,
                )
            yield spoken.removeprefix(done), part.counted
            done = spoken


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
        template=_template(tokenizer) if getattr(tokenizer, "chat_template", None) else None,
    )


def _template(tokenizer: Any) -> Callable[[list[dict[str, str]], bool], str]:
    def render(said: list[dict[str, str]], asked: bool) -> str:
        if not said:
            return ""
        text: str = tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=asked)
        return text

    return render
