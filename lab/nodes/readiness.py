"""Know which nodes are Ready without asking: a thousand nodes are five megabytes at each question."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from lab.nodes.client import Client, Object
from lab.nodes.follow import Follower
from lab.nodes.node_object import NODES


class Readiness:
    """Follows a cluster's nodes."""

    def __init__(self, client: Client) -> None:
        self._changed = threading.Condition()
        self._problems: dict[str, str] = {}
        """Node → why it isn't Ready; empty for a node that is."""
        self._follower = Follower(client, NODES, self._on_node)

    def stop(self) -> None:
        self._follower.stop()

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
    """The kubelet's own words for why the node isn't Ready; empty if it is."""
    for condition in node.get("status", {}).get("conditions", ()):
        if condition["type"] == "Ready":
            if condition["status"] == "True":
                return ""
            return str(condition.get("message") or condition.get("reason") or "its kubelet says no more")
    return "its kubelet has not reported yet"
