"""Device plugins of simulated nodes: they make extended resources appear.

As with a kubelet, a resource is on the node while a pod of its plugin's DaemonSet runs there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from lab.nodes.client.api import NODES, PODS, ApiClient, ApiError, Object
from lab.nodes.client.informer import Informer

PLUGINS = {"nvidia-device-plugin": "nvidia.com/gpu", "efa": "vpc.amazonaws.com/efa"}
"""Part of the DaemonSet's name → resource."""
_WRITERS = 4


class SimulatedDevicePlugins:
    """`devices_of` returns a simulated node's devices by resource, and None for any other node."""

    def __init__(self, client: ApiClient, devices_of: Callable[[str], Mapping[str, int] | None]) -> None:
        self._client = client
        self._devices_of = devices_of
        self._running: dict[tuple[str, str], set[str]] = {}
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="devices")
        self._informer = Informer(client, PODS, self._on_pod)

    def stop(self) -> None:
        self._informer.stop()
        self._writers.shutdown(wait=False, cancel_futures=True)

    def _on_pod(self, kind: str, pod: Object) -> None:
        node, resource = pod["spec"].get("nodeName"), offered_resource(pod)
        if not node or not resource:
            return
        pods = self._running.setdefault((node, resource), set())
        before = bool(pods)
        if kind != "DELETED" and runs(pod):
            pods.add(pod["metadata"]["uid"])
        else:
            pods.discard(pod["metadata"]["uid"])
        if bool(pods) != before:
            self._writers.submit(self._write, node, resource)

    def _write(self, node: str, resource: str) -> None:
        """Write the current state, not the one when this was submitted: writers may overtake each other."""
        devices = self._devices_of(node)
        if devices is None:
            return
        count = devices.get(resource, 0) if self._running.get((node, resource)) else 0
        amount = {resource: str(count)}
        try:
            self._client.merge(
                f"{NODES}/{node}/status", {"status": {"capacity": amount, "allocatable": amount}}
            )
        except ApiError as error:
            if error.status != 404:
                raise


def offered_resource(pod: Object) -> str | None:
    """The resource that the pod offers, if it belongs to a device plugin's DaemonSet."""
    for owner in pod["metadata"].get("ownerReferences", ()):
        if owner["kind"] == "DaemonSet":
            return next((resource for part, resource in PLUGINS.items() if part in owner["name"]), None)
    return None


def runs(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
