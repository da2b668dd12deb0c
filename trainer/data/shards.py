"""Token shards: plain little-endian arrays with one index beside them.

    index.json              format, tokenizer, vocabulary, dtype, and for each split its shards with sizes and checksums
    train-00000-000.tokens  documents one after the other, each followed by the end token
    train-00000-000.counted one bit for each token, set where the loss is taken; only where that isn't everywhere

The numbers are those of the unit of work (sources.py) and of the shard within it: no two workers share a name.

The index is written last and renamed into place, so a folder either has all of it or is not prepared.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from trainer import exits
from trainer.data import places
from trainer.data.places import Place

FORMAT = 2
INDEX = "index.json"
TRAIN, HELD_OUT = "train", "held-out"
Tokens = npt.NDArray[np.integer[Any]]
Counted = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Shard:
    file: str
    tokens: int
    sha256: str
    counted: str | None = None
    """File of bits, one for each token: whether the loss is taken on it. None: on every one."""
    counted_sha256: str | None = None


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
    tokenizer_sha256: str
    """Of the tokenizer's files."""

    def write(self, place: Place) -> None:
        place.write(INDEX, (json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n").encode())


def read_index(folder: str | Path) -> Index:
    """Of a folder, here or in S3. Raises exits.Failure if it holds none, or one of another format."""
    where = places.place(folder)
    path = f"{where.url}/{INDEX}"
    content = where.read(INDEX)
    if content is None:
        raise exits.Failure(f"{path}: missing; `python -m trainer.data.prepare` makes it", exits.CONFIG)
    try:
        raw = json.loads(content)
        if raw["format"] != FORMAT:
            raise exits.Failure(f"{path}: format {raw['format']}, this program reads {FORMAT}", exits.CONFIG)
        splits = {
            name: Split(**{**split, "shards": tuple(Shard(**shard) for shard in split["shards"])})
            for name, split in raw["splits"].items()
        }
        return Index(raw["tokenizer"], raw["vocabulary"], raw["dtype"], splits, raw["tokenizer_sha256"])
    except (ValueError, KeyError, TypeError) as error:
        raise exits.Failure(f"{path}: unreadable: {error!r}", exits.CONFIG) from error


def dtype_for(vocabulary: int) -> str:
    return "<u2" if vocabulary <= 1 << 16 else "<u4"


def write_shard(place: Place, file: str, tokens: Tokens, counted: Counted | None) -> Shard:
    """`counted` says for each token whether the loss is taken on it; None: on every one."""
    data = tokens.tobytes()
    name, bits = None, b""
    if counted is not None and not counted.all():
        name, bits = Path(file).with_suffix(".counted").name, np.packbits(counted).tobytes()
        place.write(name, bits)
    place.write(file, data)
    return Shard(
        file,
        len(tokens),
        hashlib.sha256(data).hexdigest(),
        name,
        hashlib.sha256(bits).hexdigest() if name else None,
    )


def verify(folder: str | Path, index: Index, rank: int = 0, world: int = 1) -> None:
    """Read the shards through that fall to one of `world` processes.

    Raises exits.Failure for the first whose checksum isn't the index's.
    """
    where = places.place(folder)
    found = [shard for split in index.splits.values() for shard in split.shards]
    for shard in found[rank::world]:
        for file, expected in ((shard.file, shard.sha256), (shard.counted, shard.counted_sha256)):
            if file and _sha256(where, file) != expected:
                raise exits.Failure(
                    f"{where.url}/{file}: its checksum is not the index's; prepare the data again",
                    exits.CONFIG,
                )


def _sha256(where: Place, file: str) -> str:
    if where.size(file) is None:
        return ""
    with where.open(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]


def entropy(counts: Iterable[int]) -> float:
    """Nats per symbol of a distribution given by its counts."""
    numbers = [count for count in counts if count]
    total = sum(numbers)
    return -sum(count / total * math.log(count / total) for count in numbers)


class Readable(Protocol):
    """The tokens of one split as one long array."""

    def __len__(self) -> int: ...

    def span(self, start: int, count: int) -> tuple[Tokens, Counted | None]:
        """`count` tokens from position `start` on, and for each whether the loss is taken on it (None: on all). The
        arrays are not to be written to."""

    def expect(self, blocks: Sequence[int], keep: Sequence[int]) -> None:
        """Numbers of the blocks (order.py) that will be read now, the most urgent first. All others but `keep` will
        not be read for long."""


class Stream:
    """The tokens of one split as one long array, memory-mapped: opening costs nothing, whatever its size."""

    def __init__(self, folder: Path, index: Index, split: str) -> None:
        """Raises exits.Failure if a file hasn't the size that the index says."""
        self._folder, self._dtype = folder, index.dtype
        self._shards = index.splits[split].shards
        self._starts = [0]
        for shard in self._shards:
            _check_size(folder / shard.file, shard.tokens * np.dtype(index.dtype).itemsize)
            if shard.counted:
                _check_size(folder / shard.counted, -(-shard.tokens // 8))
            self._starts.append(self._starts[-1] + shard.tokens)
        self._maps: dict[int, tuple[Tokens, Bits | None]] = {}

    def __len__(self) -> int:
        return self._starts[-1]

    def span(self, start: int, count: int) -> tuple[Tokens, Counted | None]:
        """Of any length, across shard borders."""
        number = bisect_right(self._starts, start) - 1
        first = start - self._starts[number]
        if first + count <= self._shards[number].tokens:
            return self._within(number, first, count)
        pieces = []
        while count:
            part = min(count, self._shards[number].tokens - first)
            pieces.append(self._within(number, first, part))
            number, first, count = number + 1, 0, count - part
        return joined(pieces)

    def expect(self, blocks: Sequence[int], keep: Sequence[int]) -> None:
        """The kernel sees by itself what is read, and keeps what it has room for."""

    def _within(self, number: int, first: int, count: int) -> tuple[Tokens, Counted | None]:
        """Of one shard."""
        if number not in self._maps:
            shard = self._shards[number]
            bits = mapped(self._folder / shard.counted, "u1") if shard.counted else None
            self._maps[number] = (mapped(self._folder / shard.file, self._dtype), bits)
        tokens, bits = self._maps[number]
        return tokens[first : first + count], None if bits is None else unpacked(bits, first, count)


def unpacked(bits: Bits, first: int, count: int) -> Counted:
    """Bits `first` to `first` + `count`, one element each."""
    whole = np.unpackbits(bits[first // 8 : -(-(first + count) // 8)])
    return whole[first % 8 :][:count].astype(np.bool_)


def joined(pieces: Sequence[tuple[Tokens, Counted | None]]) -> tuple[Tokens, Counted | None]:
    tokens = np.concatenate([piece for piece, _ in pieces])
    if all(counted is None for _, counted in pieces):
        return tokens, None
    return tokens, np.concatenate([
        np.ones(len(piece), dtype=np.bool_) if counted is None else counted for piece, counted in pieces
    ])  # fmt: skip


def _check_size(path: Path, expected: int) -> None:
    size = path.stat().st_size if path.exists() else -1
    if size != expected:
        raise exits.Failure(
            f"{path}: {size} bytes, its index says {expected}; prepare the data again", exits.CONFIG
        )


def mapped(path: Path, dtype: str) -> npt.NDArray[Any]:
    """A plain array: slices of numpy's own memmap cost ten times as much."""
    if not path.stat().st_size:  # nothing can't be mapped
        return np.empty(0, dtype=dtype)
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))
