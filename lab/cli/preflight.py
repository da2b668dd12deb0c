"""What must be true of the machine before anything is started: every problem at once."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from lab import processes
from lab.ports import can_bind
from lab.settings import LOOPBACK, Lab

MEMORY_GIB = 6
"""Control plane, two nodes, two trainers and Prometheus, measured at 4.5 GiB (docs/benchmarks.md)."""
STATE_DISK_GIB = 4


def problems(lab: Lab) -> list[str]:
    """One line for each thing that stops `make up`, with what to do about it."""
    room = (
        [] if processes.find(lab, "aws") else [*_memory(), *_disk(lab)]
    )  # a stack that runs has its share already
    return [*_platform(), *_ports(lab), *room]


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
    """Ports that somebody else holds. The lab's own live processes may hold theirs."""
    own = {"aws": lab.aws_port, "registry": lab.registry_port}
    busy = [
        port for name, port in own.items() if not processes.find(lab, name) and not can_bind(LOOPBACK, port)
    ]
    if not processes.find(lab, "aws"):
        busy += [port for port in lab.cluster_ports(0) if not can_bind(LOOPBACK, port)]
    return [
        f"port {port} on {LOOPBACK} is in use{_holder(port)}: end that program, or choose another base for all ports "
        f"with SHARDYARD_PORT_BASE (now {lab.port_base})"
        for port in busy
    ]


def _holder(port: int) -> str:
    """` by NAME (process N)` where /proc lets us see it."""
    inode = _listening_inode(port)
    for fd in Path("/proc").glob("[0-9]*/fd/*") if inode else ():
        try:
            if str(fd.readlink()) == f"socket:[{inode}]":
                process = fd.parent.parent
                return f" by {(process / 'comm').read_text().strip()} (process {process.name})"
        except OSError:
            continue
    return ""


def _listening_inode(port: int) -> str | None:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
                return fields[9]
    return None


def _memory() -> list[str]:
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) / 2**20
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
