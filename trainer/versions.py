"""Whether what is installed is what the lock file says: a base image or a node may bring packages of its own."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from trainer import exits

FLOOR = (2, 9)
"""Oldest torch whose FSDP2 and checkpoint interfaces the trainer uses."""
DECISIVE = ("torch", "transformers", "safetensors", "numpy")
EFA_INSTALLER = "1.48.0"
AWS_OFI_NCCL = "1.19.0"
"""What that installer brings (trainer/Dockerfile says where a base image with both comes from)."""
EFA_LIST = Path("/opt/amazon/efa_installed_packages")
"""Written by the EFA installer."""
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
    locked = _locked(lock)
    return [
        f"{name} is {version}, the lock file says {locked[name]}"
        for name, version in present.items()
        if name in locked and version.split("+")[0] != locked[name]
    ] + native(lock=lock)


def native(plugin: str | None = None, lock: Path = LOCK, efa: Path = EFA_LIST) -> list[str]:
    """One line for each library below Python that is there and not as pinned: CUDA, NCCL, the EFA installer with its
    libfabric, and aws-ofi-nccl, which only NCCL's log tells (`plugin`)."""
    import torch

    found: dict[str, str] = {}
    if torch.cuda.is_available():
        found |= {"CUDA": str(torch.version.cuda), "NCCL": ".".join(map(str, torch.cuda.nccl.version()))}
    if efa.is_file() and (match := re.search(r"EFA installer version: *([\d.]+)", efa.read_text())):
        found["EFA installer"] = match[1]
    if plugin:
        found["aws-ofi-nccl"] = plugin
    locked = _locked(lock)
    pinned = {
        "CUDA": locked.get("cuda-toolkit", ""),
        "NCCL": locked.get("nvidia-nccl-cu13", ""),
        "EFA installer": EFA_INSTALLER,
        "aws-ofi-nccl": AWS_OFI_NCCL,
    }
    return unlike(found, pinned)


def unlike(found: dict[str, str], pinned: dict[str, str]) -> list[str]:
    """Versions are compared as far as both of them go: CUDA calls itself 13.2, its package 13.2.2."""

    def differs(name: str) -> bool:
        pairs = zip(found[name].split("."), pinned[name].split("."), strict=False)
        return any(is_there != wanted for is_there, wanted in pairs)

    return [
        f"{name} is {found[name]}, pinned is {pinned[name]}"
        for name in found
        if pinned[name] and differs(name)
    ]


def _locked(lock: Path) -> dict[str, str]:
    text = lock.read_text() if lock.exists() else ""
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^\s\\]+)", text, re.MULTILINE))


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"
