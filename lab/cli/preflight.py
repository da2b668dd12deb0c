"""What must be true of the machine before anything is started: every problem at once."""

from __future__ import annotations

import os
import shutil
import sys

import psutil

from lab import processes
from lab.cli import running_lab
from lab.nodes.programs import OWNER
from lab.ports import can_bind, listener
from lab.settings import LOOPBACK, Lab

MEMORY_GIB = 6
"""Control plane, two nodes, two trainers and Prometheus, measured at 4.5 GiB (docs/benchmarks.md)."""
STATE_DISK_GIB = 4


def problems(lab: Lab) -> list[str]:
    """One line for each thing that stops `make up`, with what to do about it."""
    other = running_lab.other(lab)
    if other:  # ports and memory are in use by it; to say so as well would be to ask for its end twice
        return [*_platform(), running_lab.describe(lab, other)]
    # What runs of this lab has its share of memory and disk already, or `make up` is about to stop it.
    running = any(process.alive() for process in processes.recorded(lab))
    return [*_platform(), *_ports(lab), *([] if running else [*_memory(), *_disk(lab)])]


def _platform() -> list[str]:
    if sys.platform != "linux":
        return [f"the local stack needs Linux, this is {sys.platform}: run it in a Linux virtual machine"]
    if os.geteuid() != 0:
        return [
            "not root: the local stack's real nodes need network namespaces, mounts and containerd. "
            "Run it as root, in a virtual machine of its own if you like"
        ]
    return []


def _ports(lab: Lab) -> list[str]:
    """Ports that another program has. The lab's own processes may have theirs, also those that a dead emulator left."""
    busy = [
        port
        for port in (lab.aws_port, lab.registry_port, *lab.cluster_ports(0))
        if not can_bind(LOOPBACK, port)
    ]
    if not busy:
        return []
    own = {process.pid for process in processes.recorded(lab) if process.alive()}
    own |= set(processes.having(OWNER, str(lab.state)))
    found = []
    for port in busy:
        holder = listener(port)
        if holder is None or holder.pid not in own:
            found.append(_busy(lab, port, holder))
    return found


def _busy(lab: Lab, port: int, holder: psutil.Process | None) -> str:
    who = "another program"
    if holder:
        try:
            who = f"{holder.name()} (process {holder.pid})"
        except psutil.NoSuchProcess:
            who = f"process {holder.pid}, which has ended meanwhile"
    return (
        f"port {port} on {LOOPBACK} is in use by {who}: end that program, or move all ports of the lab, for example "
        f"`SHARDYARD_PORT_BASE={lab.port_base + 10000} make up` (the base is {lab.port_base} now)"
    )


def _memory() -> list[str]:
    available = psutil.virtual_memory().available / 2**30
    if available >= MEMORY_GIB:
        return []
    return [
        f"{available:.1f} GiB of memory are available, the local stack needs {MEMORY_GIB}: end other programs"
    ]


def _disk(lab: Lab) -> list[str]:
    folder = lab.state
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 2**30
    if free >= STATE_DISK_GIB:
        return []
    return [
        f"{free:.1f} GiB are free on the disk of {folder}, the local stack's state needs {STATE_DISK_GIB}: "
        "free some, or put it elsewhere with SHARDYARD_STATE"
    ]
