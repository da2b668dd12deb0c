"""EKS add-ons, as far as they are objects of the cluster; see `lab.nodes.node` for their programs on nodes."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lab.nodes.client.api import ApiClient, Object
from lab.settings import Lab

MANIFESTS = Path(__file__).parent / "manifests"
AVAILABLE_SECONDS = 180.0
_PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "ConfigMap": "configmaps",
    "CSIDriver": "csidrivers",
    "Deployment": "deployments",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}
_POD_SETTINGS = ("affinity", "nodeSelector", "tolerations")
"""Configuration values of the coredns add-on that go into the pod's spec as they are."""


def objects(lab: Lab, addon: str, values: Mapping[str, Any]) -> list[Object]:
    """The add-on's objects, with its configuration values applied; none for an add-on without a manifest here."""
    path = MANIFESTS / f"{addon}.yaml"
    if not path.exists():
        return []
    text = path.read_text().replace("{registry}", lab.registry).replace("{dns}", str(lab.service_network[10]))
    found = [item for item in yaml.safe_load_all(text) if item]
    return [_configured(item, values) if item["kind"] == "Deployment" else item for item in found]


def _configured(deployment: Object, values: Mapping[str, Any]) -> Object:
    deployment = copy.deepcopy(deployment)
    if "replicaCount" in values:
        deployment["spec"]["replicas"] = values["replicaCount"]
    pod = deployment["spec"]["template"]["spec"]
    pod.update({name: values[name] for name in _POD_SETTINGS if name in values})
    if "resources" in values:
        pod["containers"][0]["resources"] = values["resources"]
    return deployment


def install(client: ApiClient, items: list[Object]) -> None:
    for item in items:
        client.apply(path_of(item), item)


def remove(client: ApiClient, items: list[Object]) -> None:
    for item in reversed(items):
        client.delete(path_of(item))


def wait_available(
    client: ApiClient, addon: str, items: list[Object], seconds: float = AVAILABLE_SECONDS
) -> None:
    """Wait until the add-on's Deployments have all their replicas.

    Raises RuntimeError with what the pods are waiting for after `seconds`; EKS would report DEGRADED.
    """
    deadline = time.monotonic() + seconds
    for item in (item for item in items if item["kind"] == "Deployment"):
        while True:
            found = client.get(path_of(item))
            wanted, status = found["spec"]["replicas"], found.get("status", {})
            if (
                status.get("observedGeneration", 0) >= found["metadata"]["generation"]
                and status.get("availableReplicas", 0) >= wanted
                and status.get("updatedReplicas", 0) >= wanted
            ):
                break
            if time.monotonic() > deadline:
                available = status.get("availableReplicas", 0)
                reasons = "; ".join(_reasons(client, found))
                raise RuntimeError(f"add-on {addon}: {available} of {wanted} replicas available: {reasons}")
            time.sleep(0.5)


def _reasons(client: ApiClient, deployment: Object) -> list[str]:
    """Why its pods don't run, without duplicates."""
    selector = ",".join(f"{k}={v}" for k, v in deployment["spec"]["selector"]["matchLabels"].items())
    namespace = deployment["metadata"]["namespace"]
    reasons = set()
    for pod in client.items(f"/api/v1/namespaces/{namespace}/pods", labelSelector=selector):
        status = pod.get("status", {})
        reasons |= {
            c["message"] for c in status.get("conditions", ()) if c["status"] != "True" and "message" in c
        }
        waiting = [c["state"].get("waiting", {}) for c in status.get("containerStatuses", ()) if "state" in c]
        reasons |= {w["message"] for w in waiting if "message" in w}
    return sorted(reasons)


def path_of(item: Object) -> str:
    version, metadata = item["apiVersion"], item["metadata"]
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    inside = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{prefix}{inside}/{_PLURALS[item['kind']]}/{metadata['name']}"
