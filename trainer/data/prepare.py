"""Documents to token shards, in worker processes that share nothing.

    python -m trainer.data.prepare --source python-documentation --output FOLDER [--workers N]

Each unit of work is a run of documents that ends in one shard file of one split. A unit whose file is already
complete is not done again, so a preparation that was killed goes on where it stopped, and its outcome is the same
byte for byte whatever the number of workers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from trainer import exits
from trainer.data import shards, sources, tokenizers
from trainer.files import write_atomically

Source = Literal["python-documentation"] | Path
TRAIN, HELD_OUT = "train", "held-out"
UNIT_CHARACTERS = 64 << 20
"""Text that goes into one shard: big enough for few files, small enough to spread over many workers."""


@dataclass(frozen=True)
class Unit:
    """Documents that become one shard."""

    split: str
    number: int
    documents: tuple[sources.Document, ...]

    @property
    def file(self) -> str:
        return f"{self.split}-{self.number:05d}.tokens"

    def digest(self, tokenizer: str) -> str:
        """Of everything that the shard depends on."""
        return hashlib.sha256(repr((tokenizer, self.documents)).encode()).hexdigest()


def units(source: Source, held_out: float, size: int) -> Iterator[Unit]:
    """Cut a source into units of about `size` characters, split by split."""
    waiting: dict[str, list[sources.Document]] = {TRAIN: [], HELD_OUT: []}
    sizes, numbers = dict.fromkeys(waiting, 0), dict.fromkeys(waiting, 0)
    for document in sources.documents(source):
        split = HELD_OUT if document.held_out(held_out) else TRAIN
        waiting[split].append(document)
        sizes[split] += document.size
        if sizes[split] >= size:
            yield Unit(split, numbers[split], tuple(waiting[split]))
            numbers[split] += 1
            waiting[split], sizes[split] = [], 0
    for split, rest in waiting.items():
        if rest:
            yield Unit(split, numbers[split], tuple(rest))


def tokenise(unit: Unit, tokenizer_name: str, folder: Path) -> dict[str, Any]:
    """Write one shard and a note beside it; returns the note. Done already: returns the note that is there."""
    digest = unit.digest(tokenizer_name)
    note_path = folder / f"{unit.file}.json"
    if note := _done(note_path, digest):
        return note
    tokenizer = tokenizers.load(tokenizer_name)
    dtype = shards.dtype_for(tokenizer.vocabulary)
    pieces, counted = [], []
    for document in unit.documents:
        numbers, counts = tokenizer.document(document.parts)
        pieces.append(np.array(numbers, dtype=dtype))
        counted.append(np.array(counts, dtype=np.bool_))
    tokens = np.concatenate(pieces)
    shard = shards.write_shard(folder, unit.file, tokens, np.concatenate(counted))
    note = {
        "input": digest,
        "vocabulary": tokenizer.vocabulary,
        "documents": len(unit.documents),
        "counts": np.bincount(tokens, minlength=tokenizer.vocabulary).tolist(),
        "shard": asdict(shard),
    }
    write_atomically(note_path, json.dumps(note))  # last: without it the shard is made again
    return note


def _done(note_path: Path, digest: str) -> dict[str, Any] | None:
    """The note of an earlier run, if it is of the same input and its files are still there."""
    if not note_path.exists():
        return None
    note: dict[str, Any] = json.loads(note_path.read_text())
    files = [name for name in (note["shard"]["file"], note["shard"]["counted"]) if name]
    return (
        note
        if note["input"] == digest and all((note_path.parent / name).exists() for name in files)
        else None
    )


def prepare(
    source: Source,
    tokenizer: str,
    held_out: float,
    folder: Path,
    *,
    workers: int = 1,
    size: int = UNIT_CHARACTERS,
) -> shards.Index:
    """Fill `folder` with shards and their index; returns the index. One worker works in this very process."""
    folder.mkdir(parents=True, exist_ok=True)
    if workers == 1:
        done = [(unit.split, tokenise(unit, tokenizer, folder)) for unit in units(source, held_out, size)]
    else:
        done = _in_pool(workers, source, tokenizer, held_out, folder, size)
    splits = {}
    for split in (TRAIN, HELD_OUT):
        notes = [note for name, note in done if name == split]
        if split == TRAIN and not notes:
            raise exits.Failure(f"data.source {source}: no documents are left for training", exits.CONFIG)
        counts = np.sum([note["counts"] for note in notes], axis=0) if notes else np.zeros(0, dtype=np.int64)
        splits[split] = shards.Split(
            documents=sum(note["documents"] for note in notes),
            tokens=int(counts.sum()),
            unigram_entropy=shards.entropy(counts.tolist()),
            shards=tuple(shards.Shard(**note["shard"]) for note in notes),
        )
    vocabulary = done[0][1]["vocabulary"]
    index = shards.Index(tokenizer, vocabulary, shards.dtype_for(vocabulary), splits)
    index.write(folder)
    return index


def _in_pool(
    workers: int, source: Source, tokenizer: str, held_out: float, folder: Path, size: int
) -> list[tuple[str, dict[str, Any]]]:
    """Only a few units are read ahead of the workers, so a source may be larger than memory."""
    done: list[tuple[str, dict[str, Any]]] = []
    ahead: deque[tuple[str, Future[dict[str, Any]]]] = deque()
    with ProcessPoolExecutor(workers) as pool:
        for unit in units(source, held_out, size):
            ahead.append((unit.split, pool.submit(tokenise, unit, tokenizer, folder)))
            if len(ahead) > 2 * workers:
                split, future = ahead.popleft()
                done.append((split, future.result()))
        done += [(split, future.result()) for split, future in ahead]
    return done


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trainer.data.prepare", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--source", required=True, help="python-documentation, or a folder of .txt and .jsonl(.gz) files"
    )
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--tokenizer", default="byt5", help="byt5, or a Hugging Face tokenizer folder")
    parser.add_argument("--held-out", type=float, default=0.05, help="share of documents kept from training")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    source = arguments.source if arguments.source == "python-documentation" else Path(arguments.source)
    try:
        index = prepare(
            source, arguments.tokenizer, arguments.held_out, arguments.output, workers=arguments.workers
        )
    except exits.Failure as failure:
        print(failure, file=sys.stderr)
        return failure.status
    for name, split in index.splits.items():
        print(
            f"{name}: {split.documents:,} documents, {split.tokens:,} tokens in {len(split.shards)} shard(s), "
            f"unigram entropy {split.unigram_entropy:.4f} nats"
        )
    return exits.FINISHED


if __name__ == "__main__":
    sys.exit(main())
