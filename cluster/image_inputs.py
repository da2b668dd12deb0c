"""A digest of an image's inputs: an image with the same digest need not be built again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_LEFT_OUT = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})


@dataclass(frozen=True)
class Inputs:
    """A build's context, a folder with a Dockerfile in it, and the build arguments."""

    root: Path
    context: Path
    """Relative to the root, so that it is the same in every checkout."""
    arguments: Mapping[str, str]

    @property
    def dockerfile(self) -> Path:
        return self.context / "Dockerfile"

    def files(self) -> Iterator[Path]:
        """Every file, relative to the root, in a fixed order. Caches are left out, as in .dockerignore."""
        for path in sorted((self.root / self.context).rglob("*")):
            if path.is_file() and not _LEFT_OUT & set(path.parts):
                yield path.relative_to(self.root)

    def digest(self) -> str:
        """SHA-256 over paths, the executable bit, contents and arguments; dates and owners don't count.

        Raises FileNotFoundError if there is no Dockerfile.
        """
        if not (self.root / self.dockerfile).exists():
            raise FileNotFoundError(
                f"{self.root / self.dockerfile} is missing: the trainer's image is made of it"
            )
        total = hashlib.sha256()
        for key, value in sorted(self.arguments.items()):
            total.update(f"{key}={value}\0".encode())
        for path in self.files():
            file = self.root / path
            executable = bool(file.stat().st_mode & 0o100)
            content = hashlib.sha256(file.read_bytes()).hexdigest()
            total.update(f"{path.as_posix()}\0{executable:d}\0{content}\0".encode())
        return total.hexdigest()
