"""Labels and taints of a node that runs: what its group changes reaches it, what others put there stays."""

from __future__ import annotations

from lab.nodes.api import NodeSpec
from lab.nodes.client import ApiError, Client, Object
from lab.nodes.node_object import NODES, labels, taints

TRIES = 5


def remark(client: Client, before: NodeSpec, after: NodeSpec) -> None:
    """Replace the labels and taints of the one spec by those of the other on the node.

    Taints are one list of many writers (the node controller's among them), so the change is made on the version
    that was read, and made again if somebody was faster. Raises ApiError.
    """
    path = f"{NODES}/{after.name}"
    for attempt in range(1, TRIES + 1):
        node = client.get(path)
        try:
            client.merge(path, change(node, before, after))
            return
        except ApiError as error:
            if error.status != 409 or attempt == TRIES:
                raise


def change(node: Object, before: NodeSpec, after: NodeSpec) -> Object:
    """The merge patch for the node as it is now."""
    old, new = labels(before), labels(after)
    own = {(one["key"], one["effect"]) for one in (*taints(before), *taints(after))}
    others = [one for one in node["spec"].get("taints", []) if (one["key"], one["effect"]) not in own]
    return {
        "metadata": {
            "resourceVersion": node["metadata"]["resourceVersion"],
            "labels": {**dict.fromkeys(old.keys() - new.keys()), **new},
        },
        "spec": {"taints": [*others, *taints(after)]},
    }
