"""The emulator's Kubernetes: see `lab.nodes.api.Runtime` for what each call promises."""

from __future__ import annotations

import base64
import logging
import shutil
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence

from lab.nodes import cleanup, programs
from lab.nodes.api import AccessEntry, ClusterEndpoint, ClusterSpec, NodeSpec
from lab.nodes.cluster_files import ClusterFiles, loopback
from lab.nodes.components import control_plane
from lab.nodes.components.control_plane import ControlPlane
from lab.nodes.node import bridge
from lab.nodes.node.real_node import RealNode
from lab.nodes.running_cluster import RunningCluster
from lab.settings import Lab

log = logging.getLogger(__name__)


class KubernetesRuntime:
    """Clusters as processes of this machine. Where real nodes can't run, all nodes are simulated."""

    def __init__(self, lab: Lab, authenticate_url: str) -> None:
        self._lab = lab
        self._authenticate_url = authenticate_url
        self.no_real_nodes = programs.why_no_real_nodes(lab)
        """Why real nodes can't run here, or None if they can."""
        if self.no_real_nodes:
            log.warning("all nodes are simulated: %s", self.no_real_nodes)
        self._lock = threading.Lock()
        """Guards the fields below and the bridge."""
        self._clusters: dict[str, RunningCluster] = {}
        self._slots: dict[str, int] = {}
        self._numbers: set[int] = set()
        self._creating: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def create_cluster(self, spec: ClusterSpec) -> ClusterEndpoint:
        with self._creating[spec.name]:
            with self._lock:
                cluster = self._clusters.get(spec.name)
            if cluster is None:
                files = self._reserve(spec.name)
                try:
                    cluster = RunningCluster(control_plane.start(files, self._authenticate_url))
                except Exception:
                    control_plane.stop(files)
                    shutil.rmtree(files.folder, ignore_errors=True)
                    self._release(spec.name)
                    raise
                with self._lock:
                    self._clusters[spec.name] = cluster
        return self._endpoint(cluster.plane)

    def delete_cluster(self, name: str) -> None:
        with self._creating[name]:
            with self._lock:
                cluster = self._clusters.pop(name, None)
            if cluster is not None:
                self._release_numbers(cluster.stop())
                self._release(name)

    def add_nodes(self, cluster: str, nodes: Sequence[NodeSpec]) -> None:
        target = self._cluster(cluster)
        known = target.node_names()
        new = [node for node in nodes if node.name not in known]
        target.relabel([node for node in nodes if node.name in known])
        real = [node for node in new if node.real and not self.no_real_nodes]
        target.add_simulated([node for node in new if node not in real])
        target.add_real([RealNode(target.plane, node, self._reserve_number()) for node in real])
        target.wait_ready([node.name for node in nodes])

    def remove_nodes(self, cluster: str, names: Sequence[str]) -> None:
        self._release_numbers(self._cluster(cluster).remove(names))

    def install_addon(self, cluster: str, name: str, version: str, values: Mapping[str, object]) -> None:
        self._cluster(cluster).install_addon(name, version, values)

    def remove_addon(self, cluster: str, name: str) -> None:
        self._cluster(cluster).remove_addon(name)

    def apply_access(self, cluster: str, entries: Sequence[AccessEntry]) -> None:
        self._cluster(cluster).set_access(entries)

    def shutdown(self) -> None:
        with self._lock:
            names = list(self._slots)  # clusters that are still being created included
        for name in names:
            try:
                self.delete_cluster(name)
            except Exception:
                log.exception(
                    "cluster %s was not deleted cleanly", name
                )  # the others are deleted all the same

    def _cluster(self, name: str) -> RunningCluster:
        with self._lock:
            try:
                return self._clusters[name]
            except KeyError:
                raise LookupError(f"no cluster {name}") from None

    def _reserve(self, name: str) -> ClusterFiles:
        """Reserve ports for a cluster, and make the bridge if real nodes can run."""
        with self._lock:
            if not self.no_real_nodes:
                bridge.ensure(self._lab)
            slot = next(n for n in range(len(self._slots) + 1) if n not in self._slots.values())
            self._slots[name] = slot
        address = loopback() if self.no_real_nodes else self._lab.gateway
        return ClusterFiles(self._lab, name, slot, address)

    def _release(self, name: str) -> None:
        """Give the ports back; what all clusters share is removed with the last one."""
        with self._lock:
            self._slots.pop(name, None)
            if not self._slots:
                cleanup.remove_leftovers(self._lab)

    def _reserve_number(self) -> int:
        """Reserve a node number, which decides the node's addresses. Raises RuntimeError if none is free."""
        with self._lock:
            free = (number for number in range(1, bridge.MAX_NODES) if number not in self._numbers)
            number = next(free, None)
            if number is None:
                raise RuntimeError(f"more than {bridge.MAX_NODES - 1} real nodes")
            self._numbers.add(number)
            return number

    def _release_numbers(self, nodes: Sequence[RealNode]) -> None:
        with self._lock:
            self._numbers -= {node.number for node in nodes}

    def _endpoint(self, plane: ControlPlane) -> ClusterEndpoint:
        authority = base64.b64encode(plane.authority.certificate.read_bytes()).decode()
        return ClusterEndpoint(plane.files.url, authority, str(self._lab.service_network))
