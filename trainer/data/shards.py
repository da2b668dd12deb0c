"""Token shards: plain little-endian arrays with one index beside them.

    index.json          format, tokenizer, vocabulary, dtype, and for each split its shards with sizes and checksums
    train-00000.tokens  documents one after the other, each followed by the end token

The index is written last and renamed into place, so a folder either has all of it or is not prepared.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer import exits
from trainer.files import write_atomically

FORMAT = 1
Tokens = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Shard:
    file: str
    tokens: int
    sha256: str


@dataclass(frozen=True)
class Split:
    """One part of the data, training or held-out."""

    documents: int
    tokens: int
    unigram_entropy: float
    """Nats per token of the token frequencies: the loss of the best model that ignores all context."""
    shards: tuple[Shard, ...]


@dataclass(frozen=True)
class Index:
    tokenizer: str
    vocabulary: int
    dtype: str
    splits: dict[str, Split]

    def write(self, folder: Path) -> None:
        write_atomically(
            folder / "index.json", json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"
        )


def read_index(folder: Path) -> Index:
    """Raises exits.Failure if the folder holds none, or one of another format."""
    path = folder / "index.json"
    try:
        raw = json.loads(path.read_text())
        if raw["format"] != FORMAT:
            raise exits.Failure(f"{path}: format {raw['format']}, this program reads {FORMAT}", exits.CONFIG)
        splits = {
            name: Split(**{**split, "shards": tuple(Shard(**shard) for shard in split["shards"])})
            for name, split in raw["splits"].items()
        }
        return Index(raw["tokenizer"], raw["vocabulary"], raw["dtype"], splits)
    except FileNotFoundError:
        raise exits.Failure(
            f"{path}: missing; `python -m trainer.data.prepare` makes it", exits.CONFIG
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise exits.Failure(f"{path}: unreadable: {error!r}", exits.CONFIG) from error


def dtype_for(vocabulary: int) -> str:
    return "<u2" if vocabulary <= 1 << 16 else "<u4"


def write_shard(folder: Path, file: str, tokens: Tokens) -> Shard:
    data = tokens.tobytes()
    write_atomically(folder / file, data)
    return Shard(file, len(tokens), hashlib.sha256(data).hexdigest())


def entropy(counts: Iterable[int]) -> float:
    """Nats per symbol of a distribution given by its counts."""
    numbers = [count for count in counts if count]
    total = sum(numbers)
    return -sum(count / total * math.log(count / total) for count in numbers)


class Stream:
    """The tokens of one split as one long array, memory-mapped: opening costs nothing, whatever its size."""

    def __init__(self, folder: Path, index: Index, split: str) -> None:
        shards = index.splits[split].shards
        self._maps: list[Tokens] = []
        self._starts = [0]
        for shard in shards:
            path = folder / shard.file
            expected = shard.tokens * np.dtype(index.dtype).itemsize
            size = path.stat().st_size if path.exists() else -1
            if size != expected:
                raise exits.Failure(
                    f"{path}: {size} bytes, its index says {expected}; prepare the data again", exits.CONFIG
                )
            self._maps.append(np.memmap(path, dtype=index.dtype, mode="r"))
            self._starts.append(self._starts[-1] + shard.tokens)

    def __len__(self) -> int:
        return self._starts[-1]

    def read(self, start: int, count: int) -> npt.NDArray[np.int64]:
        """`count` tokens from position `start` on, across shard borders."""
        out = np.empty(count, dtype=np.int64)
        shard = int(np.searchsorted(self._starts, start, side="right")) - 1
        filled = 0
        while filled < count:
            offset = start + filled - self._starts[shard]
            piece = self._maps[shard][offset : offset + count - filled]
            out[filled : filled + len(piece)] = piece
            filled += len(piece)
            shard += 1
        return out
