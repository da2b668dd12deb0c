"""Find the programs that clusters and nodes are made of."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import processes
from lab.processes import Process
from lab.settings import Lab

REAL_NODE = (
    "containerd", "containerd-shim-runc-v2", "docker-registry", "ip", "iptables", "kube-proxy", "kubelet",
    "node-plugins", "nsenter", "runc", "unshare",
)  # fmt: skip
"""What a real node needs beside the CNI plugins."""

PROXIES = tuple(
    spelt for kind in ("HTTP", "HTTPS", "ALL") for spelt in (f"{kind}_PROXY", f"{kind}_proxy".lower())
)
"""Environment variables with which Go programs use a proxy. All that a cluster talks to is on the bridge or on
loopback, so they are emptied."""
OWNER = "SHARDYARD_CLUSTERS_OF"
"""Environment variable of every program of a cluster: the state folder of its lab."""


def search_path(lab: Lab) -> str:
    """PATH for everything the lab runs: its own toolchain first, then unpacked Debian packages, then the system's."""
    debian = lab.cache / "debian"
    folders = [lab.bin, debian / "usr/bin", debian / "usr/sbin", debian / "sbin"]
    system = os.environ.get("PATH", os.defpath)
    return os.pathsep.join([*map(str, folders), system, "/usr/sbin", "/sbin"])


def find(lab: Lab, name: str) -> Path:
    """The program of that name. Raises FileNotFoundError if there is none."""
    found = shutil.which(name, path=search_path(lab))
    if found is None:
        raise FileNotFoundError(
            f"{name} is neither in {lab.bin} nor on PATH: build the toolchain first (make up)"
        )
    return Path(found)


def spawn(lab: Lab, name: str, command: Sequence[str | Path], cwd: Path) -> Process:
    """Start a program of a cluster, with OWNER in its environment, by which `cleanup` finds it."""
    # kwok and others keep work files in HOME; they are removed with the cluster's folder.
    environment = {"PATH": search_path(lab), "HOME": str(cwd), OWNER: str(lab.state)}
    return processes.spawn(lab, name, command, environment | dict.fromkeys(PROXIES, ""), cwd)


def cni_plugins(lab: Lab) -> Path:
    """The folder of the CNI plugins. Raises FileNotFoundError if there is none."""
    for folder in (lab.cache / "debian/usr/lib/cni", Path("/usr/lib/cni"), Path("/opt/cni/bin")):
        if (folder / "ptp").exists() and (folder / "host-local").exists():
            return folder
    raise FileNotFoundError("no CNI plugins (ptp, host-local): build the toolchain first (make up)")


def why_no_real_nodes(lab: Lab) -> str | None:
    """Why real nodes can't run on this machine, or None if they can."""
    if sys.platform != "linux":
        return "real nodes need Linux"
    if os.geteuid() != 0:
        return "real nodes need root, for namespaces and mounts"
    try:
        for name in REAL_NODE:
            find(lab, name)
        cni_plugins(lab)
    except FileNotFoundError as error:
        return str(error)
    return None
