"""Checkpoints on S3 without tensors: what counts as one, what is swept, what is kept."""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.trainer.s3 import S3
from trainer.checkpoint.commits import Commit, Damaged, File
from trainer.checkpoint.s3 import S3Store, spread
from trainer.checkpoint.storage import Place, Saved
from trainer.objects import MIB, Address, Objects

RUN = "jobs/mine"


@pytest.fixture
def bucket(s3_server: S3, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server.bucket()


def opened(bucket: str, staging: Path, place: Place = Place(0, 2, 0, 2)) -> S3Store:  # noqa: B008
    return S3Store(
        Address(bucket, RUN),
        staging,
        Objects(bucket, patience=1.0),
        place,
        part_bytes=5 * MIB,
        upload_seconds=30,
    )


def made(store: S3Store, step: int, token: str = "a1") -> str:
    """A checkpoint of two files; returns its name."""
    attempt = store.attempt(step, token)
    (attempt.folder / "10").mkdir(exist_ok=True)
    (attempt.folder / "00/__0_0.distcp").write_bytes(bytes(range(256)) * step)
    (attempt.folder / "10/__1_0.distcp").write_bytes(b"of the other process")
    (attempt.folder / ".metadata").write_bytes(b"metadata")
    files = store.finish(attempt)
    store.commit(attempt, Commit(step, {"seed": 1}, 2, {"torch": "2"}, files))
    return attempt.folder.name


def test_names_are_spread_and_differ() -> None:
    names = [spread(rank) for rank in range(4096)]
    assert len(set(names)) == 4096
    assert len({name[0] for name in names[:16]}) == 16, "neighbours share the beginning of their keys"


def test_a_commit_comes_back_as_it_was(bucket: str, tmp_path: Path, s3_server: S3) -> None:
    store = opened(bucket, tmp_path)
    name = made(store, 7)
    assert store.saved() == [Saved(7, name)]
    commit = store.read_commit(store.saved()[0])
    assert (commit.step, commit.world, commit.job) == (7, 2, {"seed": 1})
    assert set(commit.files) == {"00/__0_0.distcp", "10/__1_0.distcp", ".metadata"}
    store.verify(store.saved()[0], commit)
    assert not list(tmp_path.rglob("*.distcp")), "what is uploaded needs no room on the node"
    assert sorted(s3_server.keys(bucket)) == [
        f"{RUN}/{name}/{file}" for file in (".metadata", "00/__0_0.distcp", "10/__1_0.distcp", "commit.json")
    ]


def test_one_process_of_a_node_uploads_and_the_leader_the_metadata(bucket: str, tmp_path: Path) -> None:
    processes = [opened(bucket, tmp_path, Place(rank, 4, rank % 2, 2)) for rank in range(4)]
    attempts = [process.attempt(3, "ff") for process in processes]
    for rank, attempt in enumerate(attempts):
        (attempt.folder / spread(rank) / f"__{rank}_0.distcp").write_bytes(b"x")
    (attempts[0].folder / ".metadata").write_bytes(b"m")
    sent = [sorted(p.finish(attempt)) for p, attempt in zip(processes, attempts, strict=True)]
    assert sent == [
        [".metadata", "00/__0_0.distcp", "10/__1_0.distcp"], [], ["20/__2_0.distcp", "30/__3_0.distcp"], [],
    ]  # fmt: skip
    assert processes[0].saved() == []


def test_what_has_no_commit_is_no_checkpoint_and_swept_but_nothing_of_others(
    bucket: str, tmp_path: Path, s3_server: S3
) -> None:
    store = opened(bucket, tmp_path)
    name = made(store, 7)
    plain = s3_server.client()
    others = [
        "jobs/mine-too/step-00000008.a1/.metadata", "jobs/mine/notes", "jobs/mine/step-00000008.a1",
        "jobs/mine/step-8.a1/.metadata", "step-00000008.a1/.metadata",
    ]  # fmt: skip
    mine = ["jobs/mine/step-00000008.a2/.metadata", "jobs/mine/step-00000009.a3/00/__0_0.distcp"]
    for key in others + mine:
        plain.put_object(Bucket=bucket, Key=key, Body=b"")
    for key in (mine[1], others[0]):
        plain.create_multipart_upload(Bucket=bucket, Key=key)
    assert [saved.step for saved in store.saved()] == [7]
    store.sweep()
    kept = s3_server.keys(bucket)
    assert sorted(key for key in kept if name not in key) == sorted(others)
    assert [key for key, _ in store.objects.uploads("")] == [others[0]]


def written(store: S3Store) -> Path:
    """What a process of this node has staged for a save that does not end."""
    file = store.attempt(9, "a3").folder / spread(store.place.rank) / f"__{store.place.rank}_0.distcp"
    file.write_bytes(b"x")
    return file


def test_a_node_removes_what_its_host_has_staged_under_any_number(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {rank: Place(rank, 24, rank % 2, 2) for rank in (0, 2, 4, 22)}
    before = [written(opened(bucket, tmp_path, place)) for place in places.values()]
    names = ("another", f"{socket.gethostname()}.local", f"{socket.gethostname()}-2", "")
    others = []
    for name in names:
        with monkeypatch.context() as there:
            there.setattr(socket, "gethostname", lambda name=name: name)
            others.append(written(opened(bucket, tmp_path, places[2])))
    assert len({*before, *others}) == 8
    opened(bucket, tmp_path, Place(1, 4, 1, 2)).sweep()
    assert all(file.exists() for file in before), "one process of a node does it"
    opened(bucket, tmp_path, Place(2, 4, 0, 2)).sweep()
    assert not [file for file in before if file.parents[2].exists()]
    assert all(file.exists() for file in others), "a shared folder has what other hosts are writing"


def test_nothing_staged_is_nothing_to_remove(bucket: str, tmp_path: Path) -> None:
    name = made(opened(bucket, tmp_path / "elsewhere"), 7)
    store = opened(bucket, tmp_path / "none")
    store.sweep()
    assert store.saved() == [Saved(7, name)]
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("damage", ["remove", "truncate"])
def test_damage_is_found_and_named_by_one_listing(
    damage: str, bucket: str, tmp_path: Path, s3_server: S3
) -> None:
    store = opened(bucket, tmp_path)
    key = f"{RUN}/{made(store, 7)}/00/__0_0.distcp"
    saved = store.saved()[0]
    commit = store.read_commit(saved)
    if damage == "remove":
        s3_server.client().delete_object(Bucket=bucket, Key=key)
    else:
        s3_server.client().put_object(Bucket=bucket, Key=key, Body=b"short")
    before = store.objects.counts.requests.total()
    with pytest.raises(Damaged, match=r"00/__0_0\.distcp (is missing|has 5 bytes instead of 1792)"):
        store.verify(saved, commit)
    assert store.objects.counts.requests.total() == before + 1


def test_a_missing_or_unreadable_commit_is_damage(bucket: str, tmp_path: Path, s3_server: S3) -> None:
    store = opened(bucket, tmp_path)
    saved = Saved(7, made(store, 7))
    key = f"{RUN}/{saved.name}/commit.json"
    s3_server.client().put_object(Bucket=bucket, Key=key, Body=b"{")
    with pytest.raises(Damaged, match="unreadable"):
        store.read_commit(saved)
    s3_server.client().delete_object(Bucket=bucket, Key=key)
    with pytest.raises(Damaged, match="missing"):
        store.read_commit(saved)


def test_a_condemned_step_counts_no_more_and_can_be_saved_again(
    bucket: str, tmp_path: Path, s3_server: S3
) -> None:
    store = opened(bucket, tmp_path)
    bad = made(store, 7, "a1")
    store.condemn(store.saved()[0], "why")
    assert store.saved() == []
    note = s3_server.client().get_object(Bucket=bucket, Key=f"{RUN}/{bad}/damaged.json")["Body"].read()
    assert json.loads(note) == {"reason": "why"}
    good = made(store, 7, "a2")
    assert store.saved() == [Saved(7, good)]
    store.sweep()
    assert any(bad in key for key in s3_server.keys(bucket)), "a person may want to look at it"
    made(store, 8)
    store.prune(1, None)
    assert not any(bad in key for key in s3_server.keys(bucket)), "but not for ever"


def test_pruning_keeps_the_newest_and_every_nth_and_removes_remains(
    bucket: str, tmp_path: Path, s3_server: S3
) -> None:
    store = opened(bucket, tmp_path)
    for step in (10, 20, 30, 40, 50):
        made(store, step)
    s3_server.client().put_object(Bucket=bucket, Key=f"{RUN}/step-00000045.b/.metadata", Body=b"")
    assert store.prune(keep=2, keep_every=20) == [30, 10]
    assert [saved.step for saved in store.saved()] == [50, 40, 20]
    assert len(s3_server.keys(bucket)) == 3 * 4, "something of the others is left"


def test_a_discarded_attempt_leaves_nothing(bucket: str, tmp_path: Path, s3_server: S3) -> None:
    store = opened(bucket, tmp_path)
    made(store, 5)
    attempt = store.attempt(6, "b")
    (attempt.folder / "00/__0_0.distcp").write_bytes(b"x")
    (attempt.folder / ".metadata").write_bytes(b"m")
    store.finish(attempt)
    (attempt.folder / "00").mkdir(parents=True, exist_ok=True)
    store.discard(attempt)
    assert not attempt.folder.exists()
    assert not any("step-00000006" in key for key in s3_server.keys(bucket))
    assert [saved.step for saved in store.saved()] == [5]


def test_a_file_is_read_anyhow_and_each_part_is_checked(bucket: str, s3_server: S3) -> None:
    from trainer.checkpoint.reading import Stream

    part = 1000
    data = os.urandom(7 * part + 100)
    digests = [hashlib.sha256(data[at : at + part]).hexdigest() for at in range(0, len(data), part)]
    file = File(len(data), "", part, tuple(digests))
    objects = Objects(bucket, patience=1.0)
    objects.put("key", data)
    draw = random.Random(3)
    with ThreadPoolExecutor(2) as pool:
        stream = Stream(objects, "key", "name", file, pool)
        assert stream.read() == data
        assert objects.counts.requests["GetObject"] == 8, "in order, every byte travels once"
        for _ in range(60):
            at, count = draw.randrange(len(data)), draw.randrange(3 * part)
            stream.seek(at)
            assert stream.read(count) == data[at : at + count]
            assert stream.tell() == min(len(data), at + count)
        assert stream.seek(-10, os.SEEK_END) == len(data) - 10
        assert stream.read(100) == data[-10:]

        spoilt = bytearray(data)
        spoilt[5 * part + 5] ^= 1
        objects.put("key", bytes(spoilt))
        stream = Stream(objects, "key", "name", file, pool)
        assert stream.read(4 * part) == data[: 4 * part]
        stream.seek(5 * part)
        with pytest.raises(Damaged, match="name fails its checksum between bytes 5000 and 6000"):
            stream.read(1)
        objects.delete(["key"])
        with pytest.raises(Damaged, match="name is missing"):
            Stream(objects, "key", "name", file, pool).read(1)
