"""One running cluster: its control plane, nodes, add-ons and access."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.nodes import addons, control_plane, kwok
from lab.nodes.access import Access
from lab.nodes.api import AccessEntry, NodeSpec
from lab.nodes.control_plane import ControlPlane
from lab.nodes.device_controller import DeviceController
from lab.nodes.drain import delete_pods, drain
from lab.nodes.node_marks import remark
from lab.nodes.node_object import NODES, fake_node_object, node_object
from lab.nodes.parallel import each
from lab.nodes.readiness import Readiness
from lab.nodes.real_node import RealNode

READY_SECONDS = 120.0
READY_SECONDS_PER_NODE = 0.3


class Cluster:
    """Safe to be called from several threads; every call may be repeated."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._lock = threading.Lock()
        """Guards the three dictionaries, and kwok's start; held for moments only."""
        self._fake: dict[str, NodeSpec] = {}
        self._real: dict[str, RealNode] = {}
        self._addons: dict[str, str] = {}
        self._access = Access(plane.client)
        self._readiness = Readiness(plane.client)
        self._devices = DeviceController(plane.client, self._devices_of)

    def add_fake(self, specs: Sequence[NodeSpec]) -> None:
        """Give nodes to kwok; they become Ready by themselves."""
        if not specs:
            return
        with self._lock:
            kwok.start(self.plane)
            self._fake |= {spec.name: spec for spec in specs}
        port = self.plane.files.port("kwok")
        each(specs, lambda spec: self.plane.client.create(NODES, fake_node_object(spec, port)))

    def add_real(self, nodes: Sequence[RealNode]) -> None:
        """Start nodes. Raises RuntimeError naming those that failed to start."""
        with self._lock:
            self._real |= {node.spec.name: node for node in nodes}
        each(nodes, self._start)

    def relabel(self, specs: Sequence[NodeSpec]) -> None:
        """Give nodes that run the labels and taints of their new specs; those of other origin stay."""
        with self._lock:
            before = {**self._fake, **{name: node.spec for name, node in self._real.items()}}
            changed = [
                (before[spec.name], spec) for spec in specs if before.get(spec.name) not in (None, spec)
            ]
            for _, spec in changed:
                if spec.name in self._real:
                    self._real[spec.name].spec = spec
                else:
                    self._fake[spec.name] = spec
        each(changed, lambda pair: remark(self.plane.client, *pair))

    def wait_ready(self, names: Sequence[str]) -> None:
        """Raises RuntimeError naming the nodes that aren't Ready in time, with the reason that each gives."""
        self._readiness.wait(names, READY_SECONDS + READY_SECONDS_PER_NODE * len(names))

    def known(self) -> set[str]:
        with self._lock:
            return {*self._fake, *self._real}

    def remove(self, names: Sequence[str]) -> list[RealNode]:
        """Drain nodes and remove them; returns the real ones among them, stopped."""
        present = [name for name in names if name in self.known()]
        if not present:
            return []
        try:
            drain(self.plane.client, present)
            each(present, lambda name: self.plane.client.delete(f"{NODES}/{name}"))
            delete_pods(self.plane.client, present)
        finally:  # whatever the API server says, nothing may go on running
            with self._lock:
                for name in present:
                    self._fake.pop(name, None)
                gone = [self._real.pop(name) for name in present if name in self._real]
            each(gone, RealNode.stop)
            for node in gone:
                discard(node.files.folder)
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
        self._access.grant(entries)

    def stop(self) -> list[RealNode]:
        """Stop everything and remove the cluster's folder; returns the real nodes that it had."""
        for follower in (self._access, self._devices, self._readiness):
            follower.stop()
        with self._lock:
            nodes = list(self._real.values())
            self._real.clear()
            self._fake.clear()
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
            spec = self._fake.get(node)
        return spec.devices if spec else None


def discard(folder: Path) -> None:
    """Remove a folder in the background: the files of unpacked images take the disk many seconds.

    Whatever is left of it when the cluster goes, goes with the cluster's own folder.
    """
    gone = folder.with_name(f".{folder.name}.{time.monotonic_ns()}")
    with contextlib.suppress(FileNotFoundError):  # the node failed before it had any
        folder.rename(gone)
    threading.Thread(target=shutil.rmtree, args=(gone, True), daemon=True).start()
