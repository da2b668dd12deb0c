"""Whether what is installed is what the lock file says: a base image or a node may bring packages of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from trainer import exits

FLOOR = (2, 9)
"""Oldest torch whose FSDP2 and checkpoint interfaces the trainer uses."""
DECISIVE = ("torch", "transformers", "safetensors", "numpy")
EFA_INSTALLER = "1.48.0"
AWS_OFI_NCCL = "1.19.0"
"""What that installer brings (trainer/Dockerfile says where a base image with both comes from)."""
MINIMUM = {"aws-ofi-nccl": "1.7", "libfabric": "1.18"}
"""Since these the plugin sets what NCCL and libfabric need on a platform; with older ones, nothing here sets it."""
EFA_LIST = Path("/opt/amazon/efa_installed_packages")
"""Written by the EFA installer."""
LOCK = Path(__file__).with_name("requirements.txt")


def installed() -> dict[str, str]:
    """Of the packages that decide about results; "missing" where there is none."""
    return {name: _version(name) for name in DECISIVE}


def differences(lock: Path = LOCK) -> list[str]:
    """One line for each decisive package, and each library below Python, that is not as locked.

    Raises exits.Failure if torch is too old to work at all.
    """
    return unlocked(lock) + unlike(native(), pins(lock))


def unlocked(lock: Path = LOCK) -> list[str]:
    """One line for each decisive package that is not as locked. Raises as `differences` does."""
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
    ]


def native(plugin: str | None = None, libfabric: str | None = None, efa: Path = EFA_LIST) -> dict[str, str]:
    """Versions of the libraries below Python that are there: CUDA, NCCL, the EFA installer, and libfabric and
    aws-ofi-nccl (`plugin`), which only NCCL's log tells."""
    import torch

    found: dict[str, str] = {}
    if torch.cuda.is_available():
        found |= {"CUDA": str(torch.version.cuda), "NCCL": ".".join(map(str, torch.cuda.nccl.version()))}
    if efa.is_file() and (match := re.search(r"EFA installer version: *([\d.]+)", efa.read_text())):
        found["EFA installer"] = match[1]
    told = {"aws-ofi-nccl": plugin, "libfabric": libfabric}
    return found | {name: version for name, version in told.items() if version}


def pins(lock: Path = LOCK) -> dict[str, str]:
    """Versions that the trainer is tested with. An EFA installer has one libfabric, so that has no pin of its own."""
    locked = _locked(lock)
    return {
        "CUDA": locked.get("cuda-toolkit", ""),
        "NCCL": locked.get("nvidia-nccl-cu13", ""),
        "EFA installer": EFA_INSTALLER,
        "aws-ofi-nccl": AWS_OFI_NCCL,
    }


def unlike(found: dict[str, str], pinned: dict[str, str]) -> list[str]:
    """Versions are compared as far as both of them go: CUDA calls itself 13.2, its package 13.2.2."""

    def differs(name: str) -> bool:
        pairs = zip(found[name].split("."), pinned[name].split("."), strict=False)
        return any(is_there != wanted for is_there, wanted in pairs)

    return [
        f"{name} is {found[name]}, pinned is {pinned[name]}"
        for name in found
        if pinned.get(name) and differs(name)
    ]


def too_old(found: dict[str, str]) -> list[str]:
    """One line for each library that is older than the trainer's settings take for granted."""
    return [
        f"{name} is {found[name]}, older than {oldest}: the settings that it needs are not set"
        for name, oldest in MINIMUM.items()
        if name in found and _numbers(found[name]) < _numbers(oldest)
    ]


def odd_ones(nodes: Sequence[dict[str, str]]) -> dict[int, list[str]]:
    """Nodes whose versions are not what most have, and how; all of them where no version is most nodes'."""
    found: dict[int, list[str]] = {}
    for name in dict.fromkeys(name for node in nodes for name in node):
        versions = [node.get(name, "missing") for node in nodes]
        counts = Counter(versions)
        usual = max(counts, key=lambda version: counts[version])
        split = 2 * counts[usual] <= len(nodes)
        for number, version in enumerate(versions):
            if len(counts) > 1 and (split or version != usual):
                others = ", ".join(other for other in counts if other != version)
                found.setdefault(number, []).append(f"{name} is {version}, on other nodes {others}")
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _locked(lock: Path) -> dict[str, str]:
    text = lock.read_text() if lock.exists() else ""
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==([^\s\\]+)", text, re.MULTILINE))


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"
