"""The Linux namespaces of a real node: commands in them, and their end."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import psutil

from lab.nodes import programs
from lab.processes import Process
from lab.settings import Lab

FLAGS = ("--net", "--mount", "--pid", "--uts")
"""Of unshare and nsenter alike: network, mounts, process ids, host name."""


def unshare(lab: Lab, command: Sequence[str | Path]) -> list[str | Path]:
    """`command` as the first process of new namespaces, which ends with its parent and has a /proc of its own."""
    flags = (*FLAGS, "--fork", "--kill-child", "--mount-proc", "--propagation=private")
    return [programs.find(lab, "unshare"), *flags, "--", *command]


def enter(lab: Lab, pid: int, command: Sequence[str | Path]) -> list[str | Path]:
    """`command` in the namespaces of process `pid`."""
    return [programs.find(lab, "nsenter"), f"--target={pid}", *FLAGS, "--", *command]


def first_process(parent: Process) -> int:
    """Process id, seen from outside, of the first process in the namespaces that `parent` (unshare) made.

    Raises RuntimeError if it ended.
    """
    found = children(parent.pid)
    if not found:
        raise RuntimeError(f"{parent.name} ended")
    return found[0].pid


def children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children()
    except psutil.NoSuchProcess:
        return []


def kill(parent: Process, seconds: float) -> None:
    """SIGKILL to the first process: the kernel then kills all others in the namespace (pid_namespaces(7)).

    Returns once it is gone, `seconds` later at the latest.
    """
    first = children(parent.pid)
    for process in first:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(first, timeout=seconds)
