"""Checkpoint folders: what counts as one, which is the newest, which to keep.

    step-00000120/               a complete checkpoint
        commit.json              step, job, versions, and size and SHA-256 of every file; written last
        .metadata, __0_0.distcp  PyTorch's distributed checkpoint
    step-00000140.partial-…/     being written, or what a crash left of it
    step-00000100.damaged/       was complete once, and failed its checksums

A folder gets its final name by one rename, after its commit is on the disk. Nothing without both is ever loaded.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.files import sync_folder, write_atomically

FORMAT = 1
COMMIT = "commit.json"
_NAME = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class File:
    """Size in bytes and hex SHA-256 of one file."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Commit:
    """What a complete checkpoint says of itself."""

    step: int
    job: dict[str, Any]
    world: int
    versions: dict[str, str]
    files: dict[str, File]

    def write(self, folder: Path) -> None:
        files = {name: [file.size, file.sha256] for name, file in sorted(self.files.items())}
        content = {
            "format": FORMAT,
            "step": self.step,
            "world": self.world,
            "versions": self.versions,
            "job": self.job,
        }
        write_atomically(folder / COMMIT, json.dumps({**content, "files": files}, indent=1) + "\n")


class Damaged(Exception):
    """Why a folder is not a usable checkpoint."""


def read_commit(folder: Path) -> Commit:
    """Raises Damaged if it is missing, unreadable or of another format."""
    try:
        raw = json.loads((folder / COMMIT).read_text())
        if raw["format"] != FORMAT:
            raise Damaged(f"{COMMIT} has format {raw['format']}, this program reads {FORMAT}")
        files = {name: File(*facts) for name, facts in raw["files"].items()}
        return Commit(raw["step"], raw["job"], raw["world"], raw["versions"], files)
    except OSError as error:
        raise Damaged(f"{COMMIT}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{COMMIT} is unreadable: {error!r}") from error


def checksum(path: Path) -> File:
    """Read a whole file. Raises OSError."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return File(file.tell(), digest.hexdigest())


def verify(folder: Path, files: Iterable[tuple[str, File]]) -> None:
    """Raises Damaged naming the first file that is missing or differs from its record."""
    for name, expected in files:
        try:
            size = (folder / name).stat().st_size
            if size != expected.size:
                raise Damaged(f"{name} has {size} bytes instead of {expected.size}")
            if checksum(folder / name) != expected:
                raise Damaged(f"{name} fails its checksum")
        except OSError as error:
            raise Damaged(f"{name}: {error.strerror}") from error


class Store:
    """The checkpoints of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def steps(self) -> list[int]:
        """Steps of the complete checkpoints, newest first."""
        found = (_NAME.fullmatch(path.name) for path in self.folder.glob("step-*"))
        steps = [int(match[1]) for match in found if match]
        return sorted((step for step in steps if (self.path(step) / COMMIT).exists()), reverse=True)

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def partial(self, step: int, token: str) -> Path:
        """Where to write; `token` makes the name unique to one attempt."""
        return self.folder / f"step-{step:08d}.partial-{token}"

    def commit(self, partial: Path, commit: Commit) -> Path:
        """Turn what was written into a checkpoint; returns its folder."""
        commit.write(partial)
        final = self.path(commit.step)
        partial.rename(final)
        sync_folder(self.folder)
        return final

    def condemn(self, step: int) -> None:
        """Take a damaged checkpoint out of the way, for a person to look at; its step can then be saved again."""
        target = self.path(step).with_suffix(".damaged")
        shutil.rmtree(target, ignore_errors=True)
        self.path(step).rename(target)

    def sweep(self) -> None:
        """Remove what crashed saves left. Only when nobody is writing."""
        for path in self.folder.glob("step-*.partial-*"):
            shutil.rmtree(path, ignore_errors=True)

    def prune(self, keep: int, keep_every: int | None) -> list[int]:
        """Remove all but the newest `keep` and every step that is a multiple of `keep_every`; returns what went."""
        steps = self.steps()
        gone = [step for step in steps[keep:] if not keep_every or step % keep_every]
        for step in gone:
            (self.path(step) / COMMIT).unlink(missing_ok=True)  # first: half removed must not look complete
            shutil.rmtree(self.path(step), ignore_errors=True)
        if steps:
            for path in self.folder.glob("step-*.damaged"):
                if int(path.name[5:].removesuffix(".damaged")) < steps[-1]:
                    shutil.rmtree(path, ignore_errors=True)
        return gone
