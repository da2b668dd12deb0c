"""Checkpoint folders: complete or absent, damaged or kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer.checkpoint.commits import COMMIT, Commit, Damaged
from trainer.checkpoint.store import Store, read_commit, verify


def made(store: Store, step: int) -> Path:
    attempt = store.attempt(step, "x")
    (attempt.folder / "__0_0.distcp").write_bytes(bytes(range(256)) * step)
    (attempt.folder / "__1_0.distcp").write_bytes(b"of another process")
    (attempt.folder / ".metadata").write_bytes(b"metadata")
    files = store.finish(attempt)
    assert set(files) == {"__0_0.distcp", ".metadata"}
    store.commit(attempt, Commit(step, {"seed": 1}, 2, {"torch": "2"}, files))
    return store.path(step)


def test_a_commit_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = made(Store(tmp_path), 7)
    commit = read_commit(folder)
    assert (commit.step, commit.world, commit.job) == (7, 2, {"seed": 1})
    verify(folder, commit.files.items())


def test_only_named_and_committed_folders_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made(store, 7)
    store.attempt(8, "y")
    store.path(9).mkdir()
    (tmp_path / "notes").mkdir()
    assert store.steps() == [7]
    store.sweep()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes", "step-00000007", "step-00000009"]


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_damage_is_found_and_named(tmp_path: Path, damage: str) -> None:
    folder = made(Store(tmp_path), 7)
    path = folder / "__0_0.distcp"
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[100] ^= 1
        path.write_bytes(data)
    elif damage == "truncate":
        path.write_bytes(data[:-1])
    else:
        path.unlink()
    with pytest.raises(Damaged, match=r"__0_0\.distcp"):
        verify(folder, read_commit(folder).files.items())


@pytest.mark.parametrize("name", [COMMIT, "__0_0.distcp"])
def test_what_cannot_be_read_is_not_damaged(tmp_path: Path, name: str) -> None:
    """A stale mount, no permission, an error of the network: here, a link that leads nowhere but to itself."""
    folder = made(Store(tmp_path), 7)
    path = folder / name
    path.rename(folder / "away")
    path.symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        verify(folder, read_commit(folder).files.items())
    path.unlink()
    (folder / "away").rename(path)
    verify(folder, read_commit(folder).files.items())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}'])
def test_an_unreadable_commit_is_damage(tmp_path: Path, text: str) -> None:
    folder = made(Store(tmp_path), 7)
    (folder / COMMIT).write_text(text)
    with pytest.raises(Damaged, match=COMMIT):
        read_commit(folder)


def test_a_condemned_step_can_be_saved_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made(store, 7)
    store.condemn(store.saved()[0], "")
    assert store.steps() == []
    made(store, 7)
    store.condemn(store.saved()[0], "")
    assert store.condemned() == [7]
    made(store, 7)
    assert store.steps() == [7]


def test_a_folder_without_its_commit_makes_way_for_a_new_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (made(store, 7) / COMMIT).unlink()
    assert store.condemned() == [7], "only a complete one gets this name"
    made(store, 7)
    assert store.steps() == [7]
    assert (tmp_path / "step-00000007.damaged" / "__0_0.distcp").exists(), "nothing is thrown away unseen"


def test_pruning_that_breaks_off_leaves_nothing_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    for step in (10, 20):
        made(store, step)
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    store.prune(keep=1, keep_every=None)
    monkeypatch.undo()
    assert store.steps() == [20]
    store.sweep()
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000020"]


def test_pruning_keeps_the_newest_and_every_nth(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for step in (10, 20, 30, 40, 50):
        made(store, step)
    assert store.prune(keep=2, keep_every=20) == [30, 10]
    assert store.steps() == [50, 40, 20]


@pytest.mark.processes  # imports torch
def test_a_writer_of_copies_leaves_the_gpu_alone(tmp_path: Path) -> None:
    """DCP's own synchronises the current stream, of the first GPU, every `per_thread_copy_ahead` bytes."""
    store = Store(tmp_path)
    attempt = store.attempt(7, "x")
    assert store.writer(attempt, copied=True).per_thread_copy_ahead == 0
    assert store.writer(attempt).per_thread_copy_ahead > 0
