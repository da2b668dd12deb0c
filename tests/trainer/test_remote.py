"""Prepared data in S3: what is read is what lies there, with few requests, whatever happens to them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.s3 import S3, Request
from tests.trainer.texts import records, write
from trainer import exits
from trainer.config import Shuffle
from trainer.data import batches, copies, places, prepare, shards
from trainer.data.batches import Batches, Micro
from trainer.data.places import Bucket
from trainer.data.remote import RemoteStream

SEQUENCE = 32
SHUFFLE = Shuffle(block=1024, blocks=3)
BATCH = 12


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, shards.Index]:
    """Two units: plain texts, and questions with answers (which have bits)."""
    folder = tmp_path_factory.mktemp("local")
    write(folder / "source" / "a.jsonl", records(100, seed=1))
    write(folder / "source" / "b.jsonl", records(150, seed=2, kinds=True))
    index = prepare.prepare(
        folder / "source", "byt5", 0.2, folder / "prepared", unit_bytes=30_000, shard_tokens=9_000
    )
    assert any(shard.counted for shard in index.splits[shards.TRAIN].shards)
    assert not all(shard.counted for shard in index.splits[shards.TRAIN].shards)
    return folder / "prepared", index


@pytest.fixture(scope="module")
def uploaded(local: tuple[Path, shards.Index], s3_server: S3) -> Callable[[], str]:
    client = s3_server.client()

    def upload() -> str:
        name = s3_server.bucket()
        for path in local[0].glob("*.*"):
            client.put_object(Bucket=name, Key=f"corpus/{path.name}", Body=path.read_bytes())
        return name

    return upload


@pytest.fixture(scope="module")
def corpus(uploaded: Callable[[], str]) -> str:
    """For all tests that change nothing in it."""
    return uploaded()


@pytest.fixture
def server(s3_server: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(s3_server, "spoil", lambda _: None)
    return s3_server


def place(name: str) -> Bucket:
    found = places.place(f"s3://{name}/corpus")
    assert isinstance(found, Bucket)
    return found


@pytest.fixture
def bucket(server: S3, corpus: str) -> Bucket:
    return place(corpus)


@pytest.fixture
def spoilt(server: S3, uploaded: Callable[[], str]) -> Bucket:
    """To be spoilt."""
    return place(uploaded())


def remote(bucket: Bucket, cache: Path, split: str = shards.TRAIN, turn: float = 0.0) -> RemoteStream:
    index = shards.read_index(bucket.url)
    block = batches.block_windows(SHUFFLE, SEQUENCE) * SEQUENCE
    return RemoteStream(bucket, index, split, block=block, cache=cache, turn=turn)


def opened(stream: shards.Readable, rank: int = 0, world: int = 1) -> Batches:
    return Batches(stream, SEQUENCE, rank=rank, world=world, micro=4, shuffle=SHUFFLE)


def same(ours: list[Micro], theirs: list[Micro]) -> None:
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert bool((one.inputs == other.inputs).all())
        assert bool((one.targets == other.targets).all())
        assert one.counted == other.counted == int((one.targets != batches.IGNORED).sum())


def gets(server: S3, bucket: Bucket) -> list[Request]:
    """Of shards."""
    name = bucket.url.split("/")[2]
    return [
        one for one in server.requests
        if one.bucket == name and one.operation == "GetObject" and not one.key.endswith("index.json")
    ]  # fmt: skip


def settled(server: S3, bucket: Bucket) -> int:
    """GETs, once no thread fetches any more."""
    while any(thread.name.startswith("fetch-") for thread in threading.enumerate()):
        time.sleep(0.01)
    return len(gets(server, bucket))


def test_it_reads_what_a_local_copy_reads(
    local: tuple[Path, shards.Index], bucket: Bucket, s3_server: S3, tmp_path: Path
) -> None:
    """Through more than two epochs, with restarts on other numbers of processes, each with a cache of its own node."""
    plain = opened(shards.Stream(*local, shards.TRAIN))
    epoch = -(-plain.windows // BATCH)
    step = 0
    for node, world in enumerate((1, 2, 3)):
        processes = [
            opened(remote(bucket, tmp_path / str(node), turn=rank / world), rank, world)
            for rank in range(world)
        ]
        reference = [opened(shards.Stream(*local, shards.TRAIN), rank, world) for rank in range(world)]
        for _ in range(epoch * 3 // 4):
            step += 1
            for ours, theirs in zip(processes, reference, strict=True):
                same(ours.step(step, BATCH, 7), theirs.step(step, BATCH, 7))
        settled(s3_server, bucket)
    assert step > 2 * epoch


def test_requests_are_few_and_the_cache_is_small(
    local: tuple[Path, shards.Index], bucket: Bucket, s3_server: S3, tmp_path: Path
) -> None:
    stream = remote(bucket, tmp_path)
    reader = opened(stream)
    blocks = -(-reader.windows // (SHUFFLE.block // SEQUENCE))
    assert blocks > 4 * SHUFFLE.blocks, "or nothing is ever removed"
    most, before = 0, settled(s3_server, bucket)
    for step in range(1, reader.windows // BATCH + 1):
        reader.step(step, BATCH, 7)
        most = max(most, len(list(tmp_path.rglob("*.block"))))
    count = settled(s3_server, bucket) - before
    # Each block once (the next epoch's first groups are fetched too), with a GET more at borders and for bits.
    assert count < 3 * (blocks + 4 * SHUFFLE.blocks)
    assert count < reader.windows / 4
    assert most <= 5 * SHUFFLE.blocks < blocks + SHUFFLE.blocks


def test_processes_of_a_node_share_what_was_fetched(bucket: Bucket, s3_server: S3, tmp_path: Path) -> None:
    def read(cache: Path, world: int) -> int:
        before = settled(s3_server, bucket)
        found = [opened(remote(bucket, cache, turn=rank / world), rank, world) for rank in range(world)]
        for step in range(1, 6):
            for one in found:
                one.step(step, BATCH, 7)
        return settled(s3_server, bucket) - before

    assert read(tmp_path / "two", 2) == read(tmp_path / "one", 1)
    assert read(tmp_path / "one", 1) == 0, "a restart on the node finds the blocks there"


def test_refusals_and_broken_connections_are_got_over(
    local: tuple[Path, shards.Index], bucket: Bucket, s3_server: S3, tmp_path: Path, monkeypatch: Any
) -> None:
    fates = iter(["503", "cut", None, "503", None, None, "cut"] * 100)
    lock = threading.Lock()

    def spoil(request: Request) -> str | None:
        with lock:
            return next(fates) if request.operation == "GetObject" else None

    reader, plain = opened(remote(bucket, tmp_path)), opened(shards.Stream(*local, shards.TRAIN))
    monkeypatch.setattr(s3_server, "spoil", spoil)
    for step in range(1, 4):
        same(reader.step(step, BATCH, 7), plain.step(step, BATCH, 7))
    settled(s3_server, bucket)


def test_a_block_without_its_end_is_fetched_again(
    local: tuple[Path, shards.Index], bucket: Bucket, s3_server: S3, tmp_path: Path
) -> None:
    opened(remote(bucket, tmp_path)).step(1, BATCH, 7)
    settled(s3_server, bucket)
    for path in tmp_path.rglob("*.block"):
        path.write_bytes(path.read_bytes()[:-1])
    same(
        opened(remote(bucket, tmp_path)).step(1, BATCH, 7),
        opened(shards.Stream(*local, shards.TRAIN)).step(1, BATCH, 7),
    )
    settled(s3_server, bucket)


def test_evaluations_read_the_same_from_s3(
    local: tuple[Path, shards.Index], bucket: Bucket, s3_server: S3, tmp_path: Path
) -> None:
    start = settled(s3_server, bucket)
    ours = opened(remote(bucket, tmp_path, shards.HELD_OUT))
    same(ours.evenly(100), opened(shards.Stream(*local, shards.HELD_OUT)).evenly(100))
    before = settled(s3_server, bucket)
    ours.evenly(100)
    assert settled(s3_server, bucket) == before
    assert before - start < 50


def test_an_object_that_is_gone_is_an_error_where_it_is_read(
    local: tuple[Path, shards.Index], spoilt: Bucket, s3_server: S3, tmp_path: Path
) -> None:
    reader = opened(remote(spoilt, tmp_path))
    for shard in local[1].splits[shards.TRAIN].shards:
        s3_server.client().delete_object(Bucket=spoilt.url.split("/")[2], Key=f"corpus/{shard.file}")
    with pytest.raises(exits.Failure, match=r"corpus/train-.*NoSuchKey"):
        reader.step(1, BATCH, 7)


def test_a_copy_is_made_once_and_checked(
    local: tuple[Path, shards.Index], spoilt: Bucket, s3_server: S3, tmp_path: Path
) -> None:
    folder, index = local
    copies.make(spoilt, index, tmp_path)
    copy = copies.folder(spoilt, index, tmp_path)
    for path in folder.glob("*-*.*"):
        assert (copy / path.name).read_bytes() == path.read_bytes()
    assert shards.read_index(copy) == index
    assert not list(copy.glob(".*"))
    before = len(gets(s3_server, spoilt))
    copies.make(spoilt, index, tmp_path)
    assert len(gets(s3_server, spoilt)) == before

    victim = index.splits[shards.TRAIN].shards[0]
    content = bytearray((folder / victim.file).read_bytes())
    content[7] ^= 1
    s3_server.client().put_object(
        Bucket=spoilt.url.split("/")[2], Key=f"corpus/{victim.file}", Body=bytes(content)
    )
    with pytest.raises(exits.Failure, match=r"train-.*its checksum is not the index's"):
        shards.verify(spoilt.url, index)
    (copy / victim.file).unlink()
    with pytest.raises(exits.Failure, match=r"train-.*its checksum is not the index's"):
        copies.make(spoilt, index, tmp_path)


def test_spans_stay_within_a_block(bucket: Bucket, s3_server: S3, tmp_path: Path) -> None:
    stream = remote(bucket, tmp_path)
    assert len(stream.span(0, SHUFFLE.block + 1)[0]) == SHUFFLE.block + 1
    with pytest.raises(IndexError, match="beyond a block"):
        stream.span(1, SHUFFLE.block + 1)
    tokens, counted = stream.span(SHUFFLE.block, 1)
    assert tokens[0] == stream.span(0, SHUFFLE.block + 1)[0][-1]
    assert counted is not None
    assert np.asarray(counted).dtype == np.bool_
    settled(s3_server, bucket)
