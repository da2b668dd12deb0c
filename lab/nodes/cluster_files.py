"""Where a cluster's files are, which ports it has, and what its processes are called."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from lab.nodes.pki import KeyPair
from lab.settings import LOOPBACK, Lab

PREFIX = "cluster."
"""What the names of all process records of clusters begin with."""
_PORTS = ("api", "etcd", "etcd-peer", "controller-manager", "scheduler", "kwok")


@dataclass(frozen=True)
class ClusterFiles:
    """One cluster's folder, ports and names.

    Process names are joined by dots, which EKS allows in no cluster name, so that no cluster's
    prefix is the beginning of another's.
    """

    lab: Lab
    name: str
    slot: int
    """Which of the lab's port ranges it has: see `Lab.cluster_ports`."""
    address: IPv4Address
    """The address its API server listens on: the bridge's, or loopback where there are no real nodes."""

    @property
    def folder(self) -> Path:
        return self.lab.state / "clusters" / self.name

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    def pair(self, name: str) -> KeyPair:
        return KeyPair(self.pki / f"{name}.crt", self.pki / f"{name}.key")

    def process(self, *parts: str) -> str:
        """The record's name of one of the cluster's processes, such as cluster.main.etcd."""
        return PREFIX + ".".join((self.name, *parts))

    def log_tail(self, *process: str, lines: int = 8) -> str:
        """The end of a process's log, ready to be put behind an error message; empty if there is no log."""
        path = self.lab.logs / f"{self.process(*process)}.log"
        try:
            text = path.read_text(errors="replace").splitlines()[-lines:]
        except FileNotFoundError:
            return ""
        return f"; the end of {path}:\n" + "\n".join(text)

    def kubeconfig(self, name: str) -> Path:
        return self.folder / f"{name}.kubeconfig"

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port('api')}"

    def port(self, name: str) -> int:
        return self.lab.cluster_ports(self.slot)[_PORTS.index(name)]

    def node_folder(self, node: str) -> Path:
        return self.folder / "nodes" / node


def loopback() -> IPv4Address:
    return IPv4Address(LOOPBACK)
