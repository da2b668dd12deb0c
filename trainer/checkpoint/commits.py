"""What a complete checkpoint says of itself, and why something is none."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass
from typing import Any

FORMAT = 1
COMMIT = "commit.json"


@dataclass(frozen=True)
class File:
    """Size in bytes and hex SHA-256 of one file; and of its parts, where they are read one at a time."""

    size: int
    sha256: str
    part_bytes: int = 0
    """Of every part but the last."""
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Commit:
    """What a complete checkpoint says of itself."""

    step: int
    job: dict[str, Any]
    world: int
    versions: dict[str, str]
    files: dict[str, File]

    def text(self) -> str:
        files = {
            name: astuple(file) if file.parts else (file.size, file.sha256)
            for name, file in sorted(self.files.items())
        }
        content = {
            "format": FORMAT,
            "step": self.step,
            "world": self.world,
            "versions": self.versions,
            "job": self.job,
        }
        return json.dumps({**content, "files": files}, indent=1) + "\n"


class Damaged(Exception):
    """Why something is not a usable checkpoint."""


def parse_commit(text: str | bytes) -> Commit:
    """Raises Damaged if it is unreadable or of another format."""
    try:
        raw = json.loads(text)
        if raw["format"] != FORMAT:
            raise Damaged(f"{COMMIT} has format {raw['format']}, this program reads {FORMAT}")
        files = {
            name: File(size, digest, *(more[:1]), *(tuple(parts) for parts in more[1:]))
            for name, (size, digest, *more) in raw["files"].items()
        }
        return Commit(raw["step"], raw["job"], raw["world"], raw["versions"], files)
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{COMMIT} is unreadable: {error!r}") from error
