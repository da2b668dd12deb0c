"""Where a real node's files are and what it is called."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.nodes.api import NodeSpec
from lab.nodes.components.control_plane import ControlPlane
from lab.nodes.node import bridge
from lab.settings import Lab


@dataclass(frozen=True)
class NodeFiles:
    """One node's folder and the names in it."""

    plane: ControlPlane
    spec: NodeSpec
    number: int
    """Which of the bridge's node addresses it has."""

    @property
    def lab(self) -> Lab:
        return self.plane.files.lab

    @property
    def folder(self) -> Path:
        return self.plane.files.node_folder(self.spec.name)

    @property
    def address(self) -> str:
        return str(bridge.node_address(self.lab, self.number))

    @property
    def cni(self) -> Path:
        """The folder of the CNI configuration."""
        return self.folder / "cni"

    @property
    def ready(self) -> Path:
        """Exists once the node's own mounts are made."""
        return self.folder / "ready"

    @property
    def user(self) -> str:
        """Name of the kubelet's certificate and kubeconfig."""
        return f"node.{self.spec.name}"

    def process(self, program: str) -> str:
        """The record's name of one of the node's processes, such as cluster.main.node.NODE.kubelet."""
        return self.plane.files.process("node", self.spec.name, program)

    def log_tail(self, program: str) -> str:
        """See `ClusterFiles.log_tail`."""
        return self.plane.files.log_tail("node", self.spec.name, program)
