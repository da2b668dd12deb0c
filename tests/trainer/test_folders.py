"""A folder that is put in place as a whole, by processes that are killed at every moment."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer import exits, folders

FILES = {"old": ("a", "b", "c"), "new": ("b", "c", "d")}


def fill(folder: Path, what: str, overwrite: bool) -> None:
    with folders.filled(folder, overwrite=overwrite) as new:
        for name in FILES[what]:
            (new / "below").mkdir(exist_ok=True)
            (new / "below" / name).write_text(what)


def found(folder: Path) -> str:
    """Which of the two it is, to the last file."""
    if not folder.exists():
        return ""
    holds = {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}
    (what,) = set(holds.values())
    assert sorted(holds) == sorted(FILES[what])
    return what


def without_exchange(*_: Path) -> None:
    """As on a file system that can't swap two names."""
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def in_a_process(body: Callable[..., Any], *arguments: Any) -> int:
    """Its exit status."""
    process = multiprocessing.get_context("fork").Process(target=body, args=arguments)
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def fill_until(moment: int, folder: Path, exchange: bool) -> None:
    """Killed before what is done with files for the nth time."""
    left = moment

    def count(event: str, _: tuple[Any, ...]) -> None:
        nonlocal left
        if event == "open" or event.startswith(("os.", "shutil.", "ctypes.", "fcntl.")):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    if not exchange:
        folders._swap = without_exchange
    sys.addaudithook(count)
    fill(folder, "new", overwrite=True)
    left = 0


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("before", ["", "old"])
def test_killed_at_any_moment_it_is_one_or_the_other(tmp_path: Path, before: str, exchange: bool) -> None:
    moment, seen, hidden = 0, set(), 0
    status = -signal.SIGKILL
    while status == -signal.SIGKILL:
        moment += 1
        folder = tmp_path / f"{moment}" / "folder"
        if before:
            fill(folder, before, overwrite=False)
        status = in_a_process(fill_until, moment, folder, exchange)
        hidden += bool(before and not found(folder))
        folders.ready(folder, overwrite=True)
        seen.add(found(folder))
        assert set(folder.parent.glob("*")) <= {folder}, "leftovers"
        fill(folder, "new", overwrite=True)
        assert found(folder) == "new"
    assert status == 0
    assert moment > 20
    assert seen == {before, "new"}
    assert bool(hidden) == (bool(before) and not exchange), "between two renames the old one has no name"


@pytest.mark.parametrize("overwrite", [True, False])
def test_an_empty_folder_is_filled(tmp_path: Path, overwrite: bool) -> None:
    fill(tmp_path, "new", overwrite)
    assert found(tmp_path) == "new"


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(exits.Failure, match="exists and is not empty") as told:
        fill(tmp_path, "new", overwrite=False)
    assert told.value.status == exits.CONFIG
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_folder_that_got_something_meanwhile_is_refused_too(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with (
        pytest.raises(exits.Failure, match="exists and is not empty"),
        folders.filled(folder, overwrite=False) as new,
    ):
        (new / "a").touch()
        fill(tmp_path / "other", "old", overwrite=False)
        (tmp_path / "other").rename(folder)
    assert found(folder) == "old"
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("overwrite", [True, False])
def test_what_can_t_be_replaced_is_refused(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "file").touch()
    for path, message in ((tmp_path / "file", "is no folder"), (Path("/proc"), "is a mount point")):
        with pytest.raises(exits.Failure, match=message) as told:
            fill(path, "new", overwrite)
        assert told.value.status == exits.CONFIG


def test_a_body_that_fails_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    fill(folder, "old", overwrite=False)
    with pytest.raises(ZeroDivisionError), folders.filled(folder, overwrite=True) as new:
        (new / "a").write_text(f"{1 / 0}")
    assert found(folder) == "old"
    assert list(tmp_path.iterdir()) == [folder]


def test_of_two_who_fill_a_folder_the_second_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"

    def second() -> None:
        with pytest.raises(exits.Failure, match="another process is filling it"):
            fill(folder, "old", overwrite=True)

    with folders.filled(folder, overwrite=True) as new:
        (new / "below").mkdir()
        assert in_a_process(second) == 0
        for name in FILES["new"]:
            (new / "below" / name).write_text("new")
    assert found(folder) == "new"


def test_a_link_stays_one_and_neighbours_are_left_alone(tmp_path: Path) -> None:
    fill(tmp_path / "folder", "old", overwrite=False)
    (tmp_path / "link").symlink_to("folder")
    others = [tmp_path / ".folder", tmp_path / ".folder.new", tmp_path / f".folder.more.{'0' * 16}.new"]
    for other in others:
        other.mkdir()
    fill(tmp_path / "link", "new", overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert found(tmp_path / "folder") == "new"
    assert all(other.exists() for other in others)
