"""Where the peers' packages lie (lab/bootstrap.py installs them), and which of them are there."""

from __future__ import annotations

from pathlib import Path

from lab import bootstrap
from lab.settings import Lab

PROJECT = Path(__file__).resolve().parents[1]


def folder() -> Path:
    return bootstrap.peers_folder(Lab.from_environment(), PROJECT)


def path(*, torchtune: bool = False) -> tuple[Path, ...]:
    """Folders that come before the trainer's packages; torchtune's own ones only if asked for."""
    return ((folder() / "torchtune",) if torchtune else ()) + (folder() / "requirements",)


def missing() -> str | None:
    """What to do if the peers aren't installed; None if they are."""
    return None if folder().exists() else "the peers are not installed: `python3 -m lab.bootstrap --bench`"
