"""One unit of work: its documents become shards, and a note says that they are complete.

The note is written last. Without it, or if it is of another input, the unit is done again, and gives the same bytes.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.data import shards
from trainer.data.documents import Document, held_out
from trainer.data.places import Place
from trainer.data.plans import Plan
from trainer.data.readers import Reader
from trainer.data.shards import HELD_OUT, TRAIN, Shard
from trainer.data.sources import Unit
from trainer.data.tokenizers import Numbers, Tokenizer

CHARACTERS_AT_ONCE = 1 << 20
"""Text that is tokenised at once."""
COUNTED_AT_ONCE = 1 << 20
FOLDER = "units"
"""Of the notes, below the shards."""


@dataclass(frozen=True)
class Note:
    """What became of a unit."""

    input: str
    documents: dict[str, int]
    """By split."""
    shards: dict[str, tuple[Shard, ...]]
    counts: dict[str, npt.NDArray[np.int64]]
    """How often each token occurs, by split."""
    skipped: int = 0
    """Bad records."""
    duplicates: int = 0
    """Documents that are in the unit already."""

    def files(self) -> Iterator[tuple[str, int]]:
        """Names, and tokens in each; a file of bits has an eighth as many bytes."""
        for split in self.shards.values():
            yield from ((shard.file, shard.tokens) for shard in split)

    def encoded(self) -> bytes:
        facts = {
            **{key: value for key, value in asdict(self).items() if key != "counts"},
            "counts": {split: _packed(counts) for split, counts in self.counts.items()},
        }
        return json.dumps(facts).encode()

    @staticmethod
    def decoded(content: bytes) -> Note:
        raw: dict[str, Any] = json.loads(content)
        found = {
            split: tuple(Shard(**shard) for shard in of_split) for split, of_split in raw["shards"].items()
        }
        counts = {split: _unpacked(text) for split, text in raw["counts"].items()}
        return Note(**{**raw, "shards": found, "counts": counts})


def _packed(counts: npt.NDArray[np.int64]) -> str:
    """A vocabulary of 128,000 in a few kilobytes where most tokens don't occur."""
    return base64.b64encode(zlib.compress(counts.astype("<i8").tobytes())).decode()


def _unpacked(text: str) -> npt.NDArray[np.int64]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<i8")


def note_name(unit: Unit) -> str:
    return f"{FOLDER}/{unit.number:05d}.json"


def note(plan: Plan, unit: Unit, output: Place) -> Note | None:
    """That of an earlier run, if it is of the same input and its shards are there."""
    content = output.read(note_name(unit))
    if content is None:
        return None
    found = Note.decoded(content)
    width = np.dtype(shards.dtype_for(plan.vocabulary)).itemsize
    whole = all(output.size(name) == tokens * width for name, tokens in found.files())
    return found if found.input == plan.input(unit) and whole else None


@dataclass
class _Split:
    """The shard of one split that is being filled."""

    pieces: list[Numbers] = field(default_factory=list)
    counted: list[npt.NDArray[np.bool_] | None] = field(default_factory=list)
    tokens: int = 0
    documents: int = 0
    done: list[Shard] = field(default_factory=list)

    def add(self, numbers: Numbers, counted: npt.NDArray[np.bool_] | None) -> None:
        self.pieces.append(numbers)
        self.counted.append(counted)
        self.tokens += len(numbers)
        self.documents += 1

    def taken(self) -> tuple[Numbers, npt.NDArray[np.bool_] | None]:
        """What has gathered; the next shard begins empty."""
        tokens, counted = np.concatenate(self.pieces), None
        if any(one is not None for one in self.counted):
            counted = np.concatenate([
                np.ones(len(piece), dtype=np.bool_) if one is None else one
                for piece, one in zip(self.pieces, self.counted, strict=True)
            ])  # fmt: skip
        self.pieces, self.counted, self.tokens = [], [], 0
        return tokens, counted


Progress = Callable[[int, int, int], None]
"""Called with the documents, tokens and source bytes that were done since the last call."""


def work(plan: Plan, unit: Unit, tokenizer: Tokenizer, output: Place, progress: Progress) -> Note:
    """Do a unit, whether or not it has been done before."""
    reader = Reader(plan.source.place, plan.text, plan.skip_bad, tokenizer.rendered)
    splits = {TRAIN: _Split(), HELD_OUT: _Split()}
    counts = {split: np.zeros(plan.vocabulary, dtype=np.int64) for split in splits}
    seen: set[bytes] = set()
    duplicates = 0

    def close(name: str) -> None:
        """Write the shard that has gathered."""
        split = splits[name]
        file = f"{name}-{unit.number:05d}-{len(split.done):03d}.tokens"
        tokens, counted = split.taken()
        for first in range(0, len(tokens), COUNTED_AT_ONCE):  # numpy counts a copy of eight bytes a token
            counts[name] += np.bincount(tokens[first : first + COUNTED_AT_ONCE], minlength=plan.vocabulary)
        split.done.append(shards.write_shard(output, file, tokens, counted))

    read = 0
    for batch in _batches(plan.source.documents(unit, reader)):
        kept = [(document, document.digest()) for document in batch]
        if plan.deduplicate:
            count, kept = len(kept), _fresh(kept, seen)
            duplicates += count - len(kept)
        tokens = 0
        encoded = tokenizer.documents([document for document, _ in kept])
        for (document, digest), (numbers, counted) in zip(kept, encoded, strict=True):
            name = HELD_OUT if held_out(document, digest, plan.held_out) else TRAIN
            splits[name].add(numbers, counted)
            tokens += len(numbers)
            if splits[name].tokens >= plan.shard_tokens:
                close(name)
        progress(len(kept), tokens, reader.tally.bytes - read)
        read = reader.tally.bytes
    for name, split in splits.items():
        if split.pieces:
            close(name)
    done = Note(
        plan.input(unit),
        {name: split.documents for name, split in splits.items()},
        {name: tuple(split.done) for name, split in splits.items()},
        counts,
        reader.tally.skipped,
        duplicates,
    )
    output.write(note_name(unit), done.encoded())
    return done


def _fresh(batch: list[tuple[Document, bytes]], seen: set[bytes]) -> list[tuple[Document, bytes]]:
    """Those whose digest has not been seen; from now on it has."""
    fresh = []
    for document, digest in batch:
        if digest not in seen:
            seen.add(digest)
            fresh.append((document, digest))
    return fresh


def _batches(documents: Iterator[Document]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += document.size
        if size >= CHARACTERS_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
