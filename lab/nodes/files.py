"""Where a cluster's files are, which ports it has, and what its processes are called."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import yaml

from lab.nodes.pki import Authority, Pair
from lab.settings import LOOPBACK, Lab

PREFIX = "cluster."
"""What the names of all process records of clusters begin with."""


@dataclass(frozen=True)
class ClusterFiles:
    """One cluster's folder, ports and names.

    Process names are joined by dots, which EKS allows in no cluster name, so that no cluster's
    prefix is the beginning of another's.
    """

    lab: Lab
    name: str
    slot: int
    address: IPv4Address
    """The address its API server listens on: the bridge's, or loopback where there are no real nodes."""

    @property
    def folder(self) -> Path:
        return self.lab.state / "clusters" / self.name

    @property
    def pki(self) -> Path:
        return self.folder / "pki"

    def pair(self, name: str) -> Pair:
        return Pair(self.pki / f"{name}.crt", self.pki / f"{name}.key")

    def process(self, *parts: str) -> str:
        """The record's name of one of the cluster's processes, such as cluster.main.etcd."""
        return PREFIX + ".".join((self.name, *parts))

    def kubeconfig(self, name: str) -> Path:
        return self.folder / f"{name}.kubeconfig"

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port('api')}"

    def port(self, name: str) -> int:
        return self.lab.cluster_ports(self.slot)[_PORTS.index(name)]

    def node_folder(self, node: str) -> Path:
        return self.folder / "nodes" / node


_PORTS = ("api", "etcd", "etcd-peer", "controller-manager", "scheduler", "kwok")


def loopback() -> IPv4Address:
    return IPv4Address(LOOPBACK)


def write_kubeconfig(
    files: ClusterFiles, authority: Authority, name: str, user: str, groups: tuple[str, ...] = ()
) -> Path:
    """A kubeconfig with a client certificate for `user` in it; returns its path."""
    pair = authority.issue(files.pair(name), user, groups)
    config = kubeconfig(files.name, files.url, authority.certificate.read_bytes(), pair)
    path = files.kubeconfig(name)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def kubeconfig(cluster: str, url: str, certificate_authority: bytes, pair: Pair) -> dict[str, Any]:
    user = {
        "client-certificate-data": _base64(pair.certificate.read_bytes()),
        "client-key-data": _base64(pair.key.read_bytes()),
    }
    server = {"server": url, "certificate-authority-data": _base64(certificate_authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "clusters": [{"name": cluster, "cluster": server}],
        "users": [{"name": cluster, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
