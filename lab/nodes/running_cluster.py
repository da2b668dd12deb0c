"""One running cluster: its control plane, nodes, add-ons and access."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.nodes.api import AccessEntry, NodeSpec
from lab.nodes.client.api import NODES
from lab.nodes.client.drain import delete_pods, drain
from lab.nodes.client.parallel import each
from lab.nodes.components import control_plane
from lab.nodes.components.control_plane import ControlPlane
from lab.nodes.eks import addons
from lab.nodes.eks.access_policies import AccessPolicies
from lab.nodes.node.real_node import RealNode
from lab.nodes.registration.labels_and_taints import set_labels_and_taints
from lab.nodes.registration.node_object import node_object
from lab.nodes.registration.readiness import Readiness
from lab.nodes.simulated import kwok
from lab.nodes.simulated.device_plugins import SimulatedDevicePlugins
from lab.nodes.simulated.node_object import simulated_node_object

READY_SECONDS = 120.0
READY_SECONDS_PER_NODE = 0.3


class RunningCluster:
    """Its methods are idempotent and safe to be called from several threads."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._lock = threading.Lock()
        """Guards the three dictionaries and the start of kwok; never held during a request."""
        self._simulated: dict[str, NodeSpec] = {}
        self._real: dict[str, RealNode] = {}
        self._addons: dict[str, str] = {}
        self._access = AccessPolicies(plane.client)
        self._readiness = Readiness(plane.client)
        self._devices = SimulatedDevicePlugins(plane.client, self._devices_of)

    def add_simulated(self, specs: Sequence[NodeSpec]) -> None:
        """Create nodes that kwok simulates. Raises RuntimeError naming the failures."""
        if not specs:
            return
        with self._lock:
            kwok.start(self.plane)
            self._simulated |= {spec.name: spec for spec in specs}
        port = self.plane.files.port("kwok")
        each(specs, lambda spec: self.plane.client.create(NODES, simulated_node_object(spec, port)))

    def add_real(self, nodes: Sequence[RealNode]) -> None:
        """Start real nodes. Raises RuntimeError naming the failures."""
        with self._lock:
            self._real |= {node.spec.name: node for node in nodes}
        each(nodes, self._start)

    def relabel(self, specs: Sequence[NodeSpec]) -> None:
        """Change the labels and taints of running nodes to those of their new specs; those of other origin stay."""
        with self._lock:
            before = {**self._simulated, **{name: node.spec for name, node in self._real.items()}}
            changed = [
                (before[spec.name], spec) for spec in specs if before.get(spec.name) not in (None, spec)
            ]
            for _, spec in changed:
                if spec.name in self._real:
                    self._real[spec.name].spec = spec
                else:
                    self._simulated[spec.name] = spec
        each(changed, lambda pair: set_labels_and_taints(self.plane.client, *pair))

    def wait_ready(self, names: Sequence[str]) -> None:
        """Raises RuntimeError naming the nodes that aren't Ready in time, each with its reason."""
        self._readiness.wait(names, READY_SECONDS + READY_SECONDS_PER_NODE * len(names))

    def node_names(self) -> set[str]:
        with self._lock:
            return {*self._simulated, *self._real}

    def remove(self, names: Sequence[str]) -> list[RealNode]:
        """Drain nodes and remove them; returns the real ones among them, which are stopped."""
        present = [name for name in names if name in self.node_names()]
        if not present:
            return []
        try:
            drain(self.plane.client, present)
            each(present, lambda name: self.plane.client.delete(f"{NODES}/{name}"))
            delete_pods(self.plane.client, present)
        finally:  # nodes are stopped even if the API server fails
            with self._lock:
                for name in present:
                    self._simulated.pop(name, None)
                gone = [self._real.pop(name) for name in present if name in self._real]
            each(gone, RealNode.stop)
            for node in gone:
                remove_in_background(node.files.folder)
        return gone

    def install_addon(self, name: str, version: str, values: Mapping[str, Any]) -> None:
        """Raises RuntimeError if the add-on's pods don't become available."""
        with self._lock:
            self._addons[name] = version
            nodes = list(self._real.values())
        items = addons.objects(self.plane.files.lab, name, values)
        addons.install(self.plane.client, items)
        each(nodes, lambda node: node.enable(name))
        addons.wait_available(self.plane.client, name, items)

    def remove_addon(self, name: str) -> None:
        with self._lock:
            self._addons.pop(name, None)
            nodes = list(self._real.values())
        each(nodes, lambda node: node.disable(name))
        addons.remove(self.plane.client, addons.objects(self.plane.files.lab, name, {}))

    def set_access(self, entries: Sequence[AccessEntry]) -> None:
        self._access.replace(entries)

    def stop(self) -> list[RealNode]:
        """Stop everything and remove the cluster's folder; returns the real nodes that it had."""
        for part in (self._access, self._devices, self._readiness):
            part.stop()
        with self._lock:
            nodes = list(self._real.values())
            self._real.clear()
            self._simulated.clear()
        each(nodes, RealNode.stop)
        kwok.stop(self.plane.files)
        control_plane.stop(self.plane.files)
        shutil.rmtree(self.plane.files.folder, ignore_errors=True)
        return nodes

    def _start(self, node: RealNode) -> None:
        self.plane.client.create(NODES, node_object(node.spec))
        node.start()
        with self._lock:
            names = list(self._addons)
        for name in names:
            node.enable(name)

    def _devices_of(self, node: str) -> Mapping[str, int] | None:
        with self._lock:
            spec = self._simulated.get(node)
        return spec.devices if spec else None


def remove_in_background(folder: Path) -> None:
    """Remove a folder in a thread: the files of unpacked images take many seconds.

    What is left of it when the cluster is deleted is removed with the cluster's folder.
    """
    gone = folder.with_name(f".{folder.name}.{time.monotonic_ns()}")
    with contextlib.suppress(FileNotFoundError):  # the node failed before its folder was made
        folder.rename(gone)
    threading.Thread(target=shutil.rmtree, args=(gone, True), daemon=True).start()
