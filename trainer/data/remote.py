"""Token shards in S3, read by blocks through a cache on a local disk.

A block is as many tokens as lie together in the order of samples (order.py): some megabytes, one GET (one more where it
crosses a border of shards or has a file of bits). It is fetched once for all processes of a node, those of a group of
blocks while the group before is read, and is removed when the group after is read.
"""

from __future__ import annotations

import fcntl
import hashlib
import threading
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from trainer import exits
from trainer.data.places import Bucket
from trainer.data.shards import Bits, Counted, Index, Tokens, joined, mapped, unpacked
from trainer.files import remove_leftovers, write_atomically
from trainer.objects import Objects

FETCHERS = 4
"""Threads of one process that fetch ahead."""


class RemoteStream:
    """The tokens of one split as one long array. Spans must not cross blocks, but for one token."""

    def __init__(
        self, bucket: Bucket, index: Index, split: str, *, block: int, cache: Path, turn: float = 0.0
    ) -> None:
        """`block` in tokens; `turn`, from 0 to 1, is where this process begins among blocks that all of its node
        want, so that they fetch different ones."""
        self._bucket, self._dtype = bucket, index.dtype
        self._shards = index.splits[split].shards
        self._block, self._turn = block, turn
        self._bits = any(shard.counted for shard in self._shards)
        self._starts = np.cumsum([0, *(shard.tokens for shard in self._shards)]).tolist()
        identity = f"{bucket.url} {split} {block} {[shard.sha256 for shard in self._shards]}"
        self._folder = cache / hashlib.sha256(identity.encode()).hexdigest()[:24]
        self._folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self._folder)
        self._maps: dict[int, tuple[Tokens, Bits | None]] = {}
        self._lock = threading.Lock()
        self._wanted: list[int] = []
        self._kept: set[int] = set()

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def objects(self) -> Objects:
        """What it speaks to S3 with, and counts."""
        return self._bucket.objects

    def span(self, start: int, count: int) -> tuple[Tokens, Counted | None]:
        """`count` tokens from position `start` on, and for each whether the loss is taken on it (None: on all)."""
        block, first = divmod(start, self._block)
        if first + count > self._block + 1:
            raise IndexError(f"{count} tokens from {start} on reach beyond a block of {self._block}")
        found = self._maps.get(block) or self._open(block)
        tokens, bits = found
        return tokens[first : first + count], None if bits is None else unpacked(bits, first, count)

    def expect(self, blocks: Sequence[int], keep: Sequence[int]) -> None:
        """Fetch blocks, in this order, while others are read; forget all but them and those of `keep`."""
        first = int(len(blocks) * self._turn)
        with self._lock:
            gone = self._kept - {*blocks, *keep}
            self._kept = {*blocks, *keep}
            self._wanted = [*blocks[first:], *blocks[:first]][::-1]
            for block in gone:
                self._maps.pop(block, None)
        for block in gone:
            self._path(block).unlink(missing_ok=True)
            self._path(block).with_suffix(".lock").unlink(missing_ok=True)
        for number in range(FETCHERS):
            threading.Thread(target=self._fetch, name=f"fetch-{number}", daemon=True).start()

    def _fetch(self) -> None:
        """Until nothing is wanted. What fails here fails again, and is reported, when the block is read."""
        while True:
            with self._lock:
                if not self._wanted:
                    return
                block = self._wanted.pop()
            with suppress(exits.Failure, OSError):
                self._ensure(block, wait=False)

    def _open(self, block: int) -> tuple[Tokens, Bits | None]:
        self._ensure(block, wait=True)
        content = mapped(self._path(block), "u1")
        width = self._length(block) * np.dtype(self._dtype).itemsize
        found = (content[:width].view(self._dtype), content[width:] if self._bits else None)
        with self._lock:
            self._kept.add(block)
            self._maps[block] = found
        return found

    def _ensure(self, block: int, *, wait: bool) -> None:
        """See to it that a block is on the disk. Another process of the node may be fetching it: wait, or leave it."""
        path = self._path(block)
        if self._complete(block):
            return
        with path.with_suffix(".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                return
            if not self._complete(block):
                write_atomically(path, self._download(block), durable=False)

    def _path(self, block: int) -> Path:
        return self._folder / f"{block}.block"

    def _length(self, block: int) -> int:
        """Tokens in a block, with the one that the next block begins with: it is the last one's target."""
        return min(self._block + 1, len(self) - block * self._block)

    def _complete(self, block: int) -> bool:
        """A machine that went down may have left a file without its end."""
        length = self._length(block)
        expected = length * np.dtype(self._dtype).itemsize + (-(-length // 8) if self._bits else 0)
        with suppress(FileNotFoundError):
            return self._path(block).stat().st_size == expected
        return False

    def _download(self, block: int) -> bytes:
        position, count = block * self._block, self._length(block)
        pieces = []
        number = bisect_right(self._starts, position) - 1
        while count:
            first = position - self._starts[number]
            part = min(count, self._shards[number].tokens - first)
            pieces.append(self._part(number, first, part))
            position, count, number = position + part, count - part, number + 1
        tokens, counted = joined(pieces)
        if not self._bits:
            return tokens.tobytes()
        return (
            tokens.tobytes()
            + np.packbits(np.ones(len(tokens), np.bool_) if counted is None else counted).tobytes()
        )

    def _part(self, number: int, first: int, count: int) -> tuple[Tokens, Counted | None]:
        """Of one shard: one GET, or two if it has bits."""
        shard = self._shards[number]
        width = np.dtype(self._dtype).itemsize
        tokens = np.frombuffer(self._get(shard.file, first * width, count * width), dtype=self._dtype)
        if not shard.counted:
            return tokens, None
        begin, end = first // 8, -(-(first + count) // 8)
        bits = np.frombuffer(self._get(shard.counted, begin, end - begin), dtype=np.uint8)
        return tokens, unpacked(bits, first - 8 * begin, count)

    def _get(self, name: str, first: int, count: int) -> bytes:
        return self.objects.read(self._bucket.key(name), first, count)
