"""Filling a folder so that a crash leaves the old one or the new one, never a mixture."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainer import exits
from trainer.files import sync_folder

NEW, OLD, GONE = "new", "old", "gone"
"""How names of hidden folders beside the target end: being filled, on its way out, being removed."""
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def filled(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """A hidden folder to fill, which takes the place of `folder` when the body is through without an error.

    Raises exits.Failure as `ready` does.
    """
    folder = folder.resolve()
    ready(folder, overwrite=overwrite)
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = _beside(folder, NEW)
    new.mkdir()
    lock = os.open(new, os.O_RDONLY)
    try:
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield new
        for path in (*new.rglob("*"), new):
            sync_folder(path)
        _put(new, folder, overwrite)
    finally:
        shutil.rmtree(new, ignore_errors=True)  # after an exchange, it is the old one
        os.close(lock)


def ready(folder: Path, *, overwrite: bool) -> None:
    """Clear away what was left by one who was killed while filling this folder.

    Raises exits.Failure if the folder can't be filled, if somebody is filling it, or if it holds something and is not
    to be overwritten.
    """
    folder = folder.resolve()
    _recover(folder)
    if folder.exists() and not folder.is_dir():
        raise exits.Failure(f"{folder}: is no folder", exits.CONFIG)
    if folder.is_mount():
        raise exits.Failure(
            f"{folder}: is a mount point, which can't be put in place as a whole; take a folder below it",
            exits.CONFIG,
        )
    if not overwrite and not _vacant(folder):
        raise _occupied(folder)


def _occupied(folder: Path) -> exits.Failure:
    return exits.Failure(
        f"{folder}: exists and is not empty; take another folder, or replace it, and all that it holds, with "
        "--overwrite",
        exits.CONFIG,
    )


def _vacant(folder: Path) -> bool:
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _beside(folder: Path, end: str) -> Path:
    return folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.{end}")


def _recover(folder: Path) -> None:
    ours = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{16}}\.({NEW}|{OLD}|{GONE})")
    for path in sorted(folder.parent.glob(".*")):
        match = ours.fullmatch(path.name)
        if match is None:
            continue
        if match[1] == OLD and _vacant(folder):
            path.rename(folder)
            continue
        if match[1] == NEW and _locked(path):
            raise exits.Failure(f"{folder}: another process is filling it; wait until it is through")
        gone = _beside(folder, GONE)
        path.rename(gone)  # at one stroke: nobody puts a half removed one in place
        shutil.rmtree(gone, ignore_errors=True)


def _locked(folder: Path) -> bool:
    """Whether somebody who is alive fills it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # not every file system has locks
        return False
    finally:
        os.close(descriptor)
    return False


def _put(new: Path, folder: Path, overwrite: bool) -> None:
    if overwrite and not _vacant(folder):
        _exchange(new, folder)
    else:
        try:
            new.rename(folder)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise _occupied(folder) from error
            raise
    sync_folder(folder.parent)


def _exchange(new: Path, folder: Path) -> None:
    """At one stroke where the file system can. Else in two: between them the old one is hidden, and whoever wants to
    fill the folder next puts it back."""
    try:
        _swap(new, folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise
        old = _beside(folder, OLD)
        folder.rename(old)
        try:
            new.rename(folder)
        except OSError:
            old.rename(folder)
            raise
        sync_folder(folder.parent)
        shutil.rmtree(old, ignore_errors=True)


def _swap(one: Path, other: Path) -> None:
    """Two names at one stroke. Raises OSError."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))
