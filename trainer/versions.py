"""Whether what is installed is what the lock file says: a base image or a node may bring packages of its own."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from trainer import exits

FLOOR = (2, 9)
"""Oldest torch whose FSDP2 and checkpoint interfaces the trainer uses."""
DECISIVE = ("torch", "transformers", "safetensors", "numpy")
LOCK = Path(__file__).with_name("requirements.txt")


def installed() -> dict[str, str]:
    """Of the packages that decide about results; "missing" where there is none."""
    return {name: _version(name) for name in DECISIVE}


def differences(lock: Path = LOCK) -> list[str]:
    """One line for each decisive package that is not as locked.

    Raises exits.Failure if torch is too old to work at all.
    """
    present = installed()
    torch = tuple(int(number) for number in re.findall(r"\d+", present["torch"])[:2])
    if torch < FLOOR:
        raise exits.Failure(
            f"torch {present['torch']} is too old: {'.'.join(map(str, FLOOR))} is the oldest", exits.CONFIG
        )
    locked = (
        dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^\s\\]+)", lock.read_text(), re.MULTILINE))
        if lock.exists()
        else {}
    )
    return [
        f"{name} is {version}, the lock file says {locked[name]}"
        for name, version in present.items()
        if name in locked and version.split("+")[0] != locked[name]
    ]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"
