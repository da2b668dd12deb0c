"""The control groups of a lab's real nodes, which hold their pods' groups, with cgroup v1 and v2 alike."""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path

from lab.settings import Lab

ROOT = Path("/sys/fs/cgroup")
EMPTY_SECONDS = 3.0
"""How long killed processes may take to leave their group."""


def lab_group(lab: Lab) -> str:
    """Unique to the lab's state folder, so that two labs of one name don't share it."""
    return f"shardyard-{hashlib.sha256(str(lab.state).encode()).hexdigest()[:8]}"


def create(lab: Lab, node: str) -> str:
    """Make the node's group in every hierarchy; returns its path for the kubelet's cgroupRoot."""
    group = f"{lab_group(lab)}/{node}"
    for hierarchy in _hierarchies():
        folder = hierarchy / group
        folder.mkdir(parents=True, exist_ok=True)
        if _is_v2(ROOT):
            _delegate(hierarchy, folder)
        if (folder / "cpuset.cpus").exists() and not _is_v2(ROOT):
            for part in (folder.parent, folder):
                _inherit_cpuset(part)
    return f"/{group}"


def remove(lab: Lab, node: str | None = None) -> None:
    """Remove the groups of a node, or of the whole lab. Their processes must have been killed."""
    deadline = time.monotonic() + EMPTY_SECONDS
    while left := existing(lab, node):
        for top in left:
            folders = [path for path in top.rglob("*") if path.is_dir()]
            for folder in [*sorted(folders, key=lambda path: len(path.parts), reverse=True), top]:
                with contextlib.suppress(OSError):  # removed meanwhile, or a process in it is still ending
                    folder.rmdir()
        if time.monotonic() > deadline:
            return  # cleanup.leftovers reports it
        time.sleep(0.05)


def existing(lab: Lab, node: str | None = None) -> list[Path]:
    group = lab_group(lab) + (f"/{node}" if node else "")
    return [folder for hierarchy in _hierarchies() if (folder := hierarchy / group).is_dir()]


def _hierarchies() -> list[Path]:
    if _is_v2(ROOT):
        return [ROOT]
    return (
        [path for path in sorted(ROOT.iterdir()) if path.is_dir() and not path.is_symlink()]
        if ROOT.is_dir()
        else []
    )


def _is_v2(folder: Path) -> bool:
    return (folder / "cgroup.controllers").exists()


def _delegate(top: Path, folder: Path) -> None:
    """Enable every controller for `folder` (cgroups(7): a v2 group has those that its parent enables)."""
    wanted = " ".join(f"+{name}" for name in (top / "cgroup.controllers").read_text().split())
    for parent in (top, folder.parent, folder):
        (parent / "cgroup.subtree_control").write_text(wanted)


def _inherit_cpuset(folder: Path) -> None:
    """A new v1 cpuset is empty, and no process can be put in it."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (folder / name).read_text().strip():
            (folder / name).write_text((folder.parent / name).read_text())
