"""Checkpoints in a folder that all processes see.

    step-00000120/               a complete checkpoint
        commit.json              step, job, versions, and size and SHA-256 of every file; written last
        .metadata, __0_0.distcp  PyTorch's distributed checkpoint
    step-00000140.partial-…/     being written, or what a crash left of it
    step-00000100.damaged/       was complete once, and failed its checksums

A folder gets its final name by one rename, after its commit is on the disk. Nothing without both is ever loaded.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from trainer.checkpoint.commits import COMMIT, Commit, Damaged, File, parse_commit
from trainer.checkpoint.storage import METADATA, Attempt, Place, Saved, Storage, ahead, excess, owned
from trainer.files import sync_folder, write_atomically

_NAME = re.compile(r"step-(\d{8,})")


def read_commit(folder: Path) -> Commit:
    """Raises Damaged if it makes no sense or is of another format, OSError if it can't be read."""
    return parse_commit((folder / COMMIT).read_bytes())


def checksum(path: Path) -> File:
    """Read a whole file. Raises OSError."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return File(file.tell(), digest.hexdigest())


def verify(folder: Path, files: Iterable[tuple[str, File]]) -> None:
    """Raises Damaged naming the first file that is missing or differs from its record. A file that can't be read is
    not damaged: then it raises OSError."""
    for name, expected in files:
        try:
            size = (folder / name).stat().st_size
            if size != expected.size:
                raise Damaged(f"{name} has {size} bytes instead of {expected.size}")
            if checksum(folder / name) != expected:
                raise Damaged(f"{name} fails its checksum")
        except FileNotFoundError as error:
            raise Damaged(f"{name} is missing") from error


class Store(Storage):
    """A folder that all processes see."""

    def __init__(self, folder: Path, place: Place | None = None) -> None:
        self.folder, self.place = folder, place or Place()

    def __str__(self) -> str:
        return str(self.folder)

    def steps(self) -> list[int]:
        """Steps of the complete checkpoints, newest first."""
        found = (_NAME.fullmatch(path.name) for path in self.folder.glob("step-*"))
        steps = [int(match[1]) for match in found if match]
        return sorted((step for step in steps if (self.path(step) / COMMIT).exists()), reverse=True)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def saved(self) -> list[Saved]:
        return [Saved(step, self.path(step).name) for step in self.steps()]

    def attempt(self, step: int, token: str) -> Attempt:
        folder = self.folder / f"step-{step:08d}.partial-{token}"
        folder.mkdir(parents=True, exist_ok=True)
        return Attempt(step, folder)

    def writer(self, attempt: Attempt, *, copied: bool = False) -> Any:
        import torch.distributed.checkpoint as dcp

        return dcp.FileSystemWriter(attempt.folder, single_file_per_rank=True, **ahead(copied))

    def finish(self, attempt: Attempt) -> dict[str, File]:
        """Read back for its checksums."""
        names = owned(attempt.folder, [self.place.rank]) + [METADATA] * self.place.leader
        return {name: checksum(attempt.folder / name) for name in names}

    def commit(self, attempt: Attempt, commit: Commit) -> None:
        write_atomically(attempt.folder / COMMIT, commit.text())
        final = self.path(commit.step)
        if final.exists():  # somebody took its commit away, or it would have been loaded
            self.condemn(Saved(commit.step, final.name), "has no commit")
        attempt.folder.rename(final)
        sync_folder(self.folder)

    def discard(self, attempt: Attempt) -> None:
        if self.place.leader:
            shutil.rmtree(attempt.folder, ignore_errors=True)

    def read_commit(self, saved: Saved) -> Commit:
        return read_commit(self.folder / saved.name)

    def verify(self, saved: Saved, commit: Commit) -> None:
        """Each process reads its part of the files, so checking takes as long as one process's share."""
        mine = islice(sorted(commit.files.items()), self.place.rank, None, self.place.world)
        verify(self.folder / saved.name, mine)

    def reader(self, saved: Saved, commit: Commit) -> Any:
        import torch.distributed.checkpoint as dcp

        return dcp.FileSystemReader(self.folder / saved.name)

    def condemn(self, saved: Saved, reason: str) -> None:
        path = self.folder / saved.name
        target = path.with_suffix(".damaged")
        shutil.rmtree(target, ignore_errors=True)
        path.rename(target)

    def condemned(self) -> list[int]:
        names = (path.name.removesuffix(".damaged") for path in self.folder.glob("step-*"))
        steps = {int(match[1]) for match in map(_NAME.fullmatch, names) if match}
        return sorted(steps - set(self.steps()), reverse=True)

    def sweep(self) -> None:
        if self.place.leader:
            self.folder.mkdir(parents=True, exist_ok=True)
            for path in self.folder.glob("step-*.partial-*"):
                shutil.rmtree(path, ignore_errors=True)

    def prune(self, keep: int, keep_every: int | None) -> list[int]:
        steps = self.steps()
        gone = excess(steps, keep, keep_every)
        for step in gone:
            doomed = (
                self.folder / f"{self.path(step).name}.partial-removed"
            )  # not half a checkpoint, and swept
            self.path(step).rename(doomed)
            shutil.rmtree(doomed, ignore_errors=True)
        if steps:
            for path in self.folder.glob("step-*.damaged"):
                if int(path.name[5:].removesuffix(".damaged")) < steps[-1]:
                    shutil.rmtree(path, ignore_errors=True)
        return gone
