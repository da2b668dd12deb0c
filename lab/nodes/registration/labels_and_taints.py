"""Changes of a node group's labels and taints, made on a running node. Those of other origin stay."""

from __future__ import annotations

from lab.nodes.api import NodeSpec
from lab.nodes.client.api import NODES, ApiClient, ApiError, Object
from lab.nodes.registration.node_object import labels, taints

TRIES = 5


def set_labels_and_taints(client: ApiClient, before: NodeSpec, after: NodeSpec) -> None:
    """Replace the labels and taints of the one spec by those of the other on the node.

    Taints are one list with several writers (the node controller is one), so the patch names the version that
    was read, and is tried again on a conflict, TRIES times at most. Raises ApiError.
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
    """The merge patch that turns the node's labels and taints from those of one spec into those of the other."""
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
