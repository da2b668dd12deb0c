"""Which nodes are Ready, from a watch: to list a thousand nodes again and again is five megabytes each time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from lab.nodes.client.api import NODES, ApiClient, Object
from lab.nodes.client.informer import Informer


class Readiness:
    """Watches a cluster's nodes."""

    def __init__(self, client: ApiClient) -> None:
        self._changed = threading.Condition()
        self._problems: dict[str, str] = {}
        """Node → why it isn't Ready; empty for a node that is."""
        self._informer = Informer(client, NODES, self._on_node)

    def stop(self) -> None:
        self._informer.stop()

    def wait(self, names: Iterable[str], seconds: float) -> None:
        """Raises RuntimeError naming the nodes that aren't Ready in time, with the reason that each gives."""
        wanted = set(names)
        deadline = time.monotonic() + seconds
        with self._changed:
            while left := [name for name in wanted if self._problems.get(name, "it is not registered")]:
                if not self._changed.wait(deadline - time.monotonic()):
                    reasons = [
                        f"{name}: {self._problems.get(name, 'it is not registered')}" for name in sorted(left)
                    ]
                    raise RuntimeError(f"{len(left)} nodes not Ready: " + "; ".join(reasons[:10]))

    def _on_node(self, kind: str, node: Object) -> None:
        name = node["metadata"]["name"]
        with self._changed:
            if kind == "DELETED":
                self._problems.pop(name, None)
            else:
                self._problems[name] = problem(node)
            self._changed.notify_all()


def problem(node: Object) -> str:
    """Why the node isn't Ready, as its kubelet reports it; empty if it is."""
    for condition in node.get("status", {}).get("conditions", ()):
        if condition["type"] == "Ready":
            if condition["status"] == "True":
                return ""
            return str(condition.get("message") or condition.get("reason") or "its kubelet gives no reason")
    return "its kubelet has not reported yet"
