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
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer import exits
from trainer.data import places
from trainer.data.places import Place

FORMAT = 2
INDEX = "index.json"
TRAIN, HELD_OUT = "train", "held-out"
Tokens = npt.NDArray[np.integer[Any]]


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


def write_shard(place: Place, file: str, tokens: Tokens, counted: npt.NDArray[np.bool_] | None) -> Shard:
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


def verify(folder: str | Path, index: Index) -> None:
    """Read all shards through. Raises exits.Failure for the first whose checksum isn't the index's."""
    where = places.place(folder)
    for split in index.splits.values():
        for shard in split.shards:
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


class Stream:
    """The tokens of one split as one long array, memory-mapped: opening costs nothing, whatever its size."""

    def __init__(self, folder: Path, index: Index, split: str) -> None:
        shards = index.splits[split].shards
        self._maps: list[Tokens] = []
        self._bits: list[npt.NDArray[np.uint8] | None] = []
        self._starts = [0]
        for shard in shards:
            self._maps.append(_mapped(folder / shard.file, index.dtype, shard.tokens))
            bits = folder / shard.counted if shard.counted else None
            self._bits.append(_mapped(bits, "u1", -(-shard.tokens // 8)) if bits else None)
            self._starts.append(self._starts[-1] + shard.tokens)

    def __len__(self) -> int:
        return self._starts[-1]

    def read(self, start: int, count: int) -> npt.NDArray[np.int64]:
        """`count` tokens from position `start` on, across shard borders."""
        out = np.empty(count, dtype=np.int64)
        for shard, first, last, place in self._spans(start, count):
            out[place : place + last - first] = self._maps[shard][first:last]
        return out

    def counted(self, start: int, count: int) -> npt.NDArray[np.bool_]:
        """For the same tokens, whether the loss is taken on each."""
        out = np.ones(count, dtype=np.bool_)
        for shard, first, last, place in self._spans(start, count):
            bits = self._bits[shard]
            if bits is not None:
                whole = np.unpackbits(bits[first // 8 : -(-last // 8)])
                out[place : place + last - first] = whole[first % 8 :][: last - first]
        return out

    def _spans(self, start: int, count: int) -> Iterator[tuple[int, int, int, int]]:
        """Shard, first and last + 1 of its tokens, and their place in the result."""
        shard = int(np.searchsorted(self._starts, start, side="right")) - 1
        place = 0
        while place < count:
            first = start + place - self._starts[shard]
            last = min(first + count - place, len(self._maps[shard]))
            yield shard, first, last, place
            place += last - first
            shard += 1


def _mapped(path: Path, dtype: str, count: int) -> npt.NDArray[Any]:
    """Raises exits.Failure if the file hasn't exactly so many elements."""
    expected = count * np.dtype(dtype).itemsize
    size = path.stat().st_size if path.exists() else -1
    if size != expected:
        raise exits.Failure(
            f"{path}: {size} bytes, its index says {expected}; prepare the data again", exits.CONFIG
        )
    return np.memmap(path, dtype=dtype, mode="r")
