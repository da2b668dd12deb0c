"""The first process of a real node: it mounts what the node has of its own, then only holds the namespaces."""

from __future__ import annotations

import shlex

from lab.nodes import programs
from lab.nodes.node.node_files import NodeFiles
from lab.settings import Lab

# The kubelet insists on these (pkg/kubelet/cm, setupKernelTunables). They belong to the whole machine, so the
# node's mount namespace has files with the wanted values mounted over them, and the machine keeps its own.
KERNEL_TUNABLES = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
_TMPFS = ("/run", "/var/lib")
_BINDS = {"kubelet": "/var/lib/kubelet", "cni-state": "/var/lib/cni", "log": "/var/log"}
"""Folder in the node's folder → where the node sees it."""


def check_folders(lab: Lab) -> None:
    """Raises RuntimeError if a folder of the lab would be hidden by a mount that every node has of its own."""
    for folder in (lab.cache, lab.state):
        for hidden in ("/run", "/var/lib", "/var/log", "/var/run"):
            if folder.resolve().is_relative_to(hidden):
                raise RuntimeError(
                    f"{folder} is under {hidden}, and every real node mounts a {hidden} of its own: move it"
                )


def write(files: NodeFiles) -> None:
    """Write init.sh and the folders and files that it mounts."""
    for name in (*_BINDS, "sysctl"):
        (files.folder / name).mkdir(parents=True, exist_ok=True)
    for name, value in KERNEL_TUNABLES.items():
        (files.folder / "sysctl" / name.replace("/", ".")).write_text(f"{value}\n")
    (files.folder / "init.sh").write_text(_script(files))


def _script(files: NodeFiles) -> str:
    lines = ["set -eu", "mount --make-rshared /"]  # pods' volumes are mounted through it
    lines += [f"mount -t tmpfs -o mode=755 tmpfs {path}" for path in _TMPFS]
    for name, target in _BINDS.items():
        source = shlex.quote(str(files.folder / name))
        lines += [f"mkdir -p {target}", f"mount --bind {source} {target}"]
    for name in KERNEL_TUNABLES:
        source = shlex.quote(str(files.folder / "sysctl" / name.replace("/", ".")))
        lines.append(f"mount --bind {source} /proc/sys/{name}")
    lines += [
        f"hostname {shlex.quote(files.spec.name)}",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        f"touch {shlex.quote(str(files.ready))}",
        f"exec {shlex.quote(str(programs.find(files.lab, 'node-plugins')))} pause",
    ]
    return "\n".join(lines) + "\n"
