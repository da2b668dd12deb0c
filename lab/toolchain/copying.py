"""Copying and editing vendors' files: what the slimmed copies have in common."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.toolchain.errors import ToolchainError


@dataclass(frozen=True)
class Edit:
    """One change to a vendor's file: `old` stands in it exactly `times` times and becomes `new`."""

    path: str
    old: str
    new: str
    reason: str
    times: int = 1

    def apply(self, folder: Path) -> None:
        """Raises ToolchainError if the file doesn't hold what is to be changed: the vendor's code has moved on."""
        file = folder / self.path
        text = file.read_text() if file.exists() else ""
        if text.count(self.old) != self.times:
            raise ToolchainError(
                f"{self.path} holds {self.old!r} {text.count(self.old)} times, not {self.times}: this version of the "
                f"module needs another edit ({self.reason})"
            )
        file.write_text(text.replace(self.old, self.new))


def is_source(path: Path) -> bool:
    """Whether a file belongs into a copy: tests don't."""
    return path.is_file() and not path.name.endswith("_test.go")


def copy_files(source: Path, target: Path) -> None:
    """The files of one folder, not of those below it; written anew, so that a read-only cache does not matter."""
    target.mkdir(parents=True, exist_ok=True)
    for path in filter(is_source, source.iterdir()):
        shutil.copyfile(path, target / path.name)


def copy_tree(source: Path, target: Path, without: frozenset[str] = frozenset({"testdata"})) -> None:
    """A folder and all below it, but for folders and files of the names in `without`."""
    for path in source.iterdir():
        if path.name in without:
            continue
        if path.is_dir():
            copy_tree(path, target / path.name, without)
        elif is_source(path):
            target.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / path.name)
