"""Drain nodes before they are removed, as EKS does when a node group shrinks or is deleted."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lab.nodes.client.api import NODES, PODS, ApiClient, ApiError, Object
from lab.nodes.client.parallel import each

WAIT_SECONDS = 60.0
"""How long pods may take to be evicted before they are deleted; EKS waits 15 minutes."""
_POLL_SECONDS = 0.5


def cordon(client: ApiClient, node: str) -> None:
    try:
        client.merge(f"{NODES}/{node}", {"spec": {"unschedulable": True}})
    except ApiError as error:
        if error.status != 404:
            raise


def drain(client: ApiClient, nodes: Sequence[str], wait: float = WAIT_SECONDS) -> None:
    """Cordon the nodes and evict their pods, except those of DaemonSets.

    Disruption budgets and grace periods are honoured for `wait` seconds in all. Pods that are left after that
    are for `delete_pods`. Raises RuntimeError if the API server refuses anything else.
    """
    each(nodes, lambda node: cordon(client, node))
    gone_by = time.monotonic() + wait
    while time.monotonic() < gone_by:
        left = [pod for pod in pods_on(client, nodes) if not _stays(pod)]
        if not left:
            return
        each(
            [pod for pod in left if "deletionTimestamp" not in pod["metadata"]],
            lambda pod: _evict(client, pod),
        )
        time.sleep(_POLL_SECONDS)


def delete_pods(client: ApiClient, nodes: Sequence[str]) -> None:
    """Delete the pods of removed nodes at once: no kubelet is left to confirm the end of their grace period."""
    each(pods_on(client, nodes), lambda pod: client.delete(pod_path(pod), grace_seconds=0))


def pods_on(client: ApiClient, nodes: Sequence[str]) -> list[Object]:
    wanted = set(nodes)
    if len(wanted) == 1:
        return client.items(PODS, fieldSelector=f"spec.nodeName={nodes[0]}")
    return [pod for pod in client.items(PODS) if pod["spec"].get("nodeName") in wanted]


def pod_path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _stays(pod: Object) -> bool:
    """A DaemonSet would create its pod again, cordoned or not; finished pods need no eviction."""
    owners = pod["metadata"].get("ownerReferences", ())
    finished = pod["status"].get("phase") in ("Succeeded", "Failed")
    return finished or any(owner["kind"] == "DaemonSet" for owner in owners)


def _evict(client: ApiClient, pod: Object) -> None:
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    try:
        client.call("POST", f"{pod_path(pod)}/eviction", eviction)
    except ApiError as error:
        # 429: a disruption budget forbids it for now. 404, 409: the pod is deleted or being deleted.
        if error.status not in (404, 409, 429):
            raise
