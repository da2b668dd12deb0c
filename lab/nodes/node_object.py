"""The Node object that stands for an EC2 instance, as EKS's kubelets register it."""

from __future__ import annotations

from lab.nodes.api import NodeSpec
from lab.nodes.client import Object

FAKE = ("kwok.x-k8s.io/node", "fake")
"""The annotation that gives a node to kwok."""
NODES = "/api/v1/nodes"


def node_object(spec: NodeSpec, address: str, fake: bool) -> Object:
    """`address` is the node's InternalIP. A real node's kubelet adds its own status to this."""
    node: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels(spec)},
        "spec": {
            "providerID": f"aws:///{spec.zone}/{spec.instance_id}",
            "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in spec.taints],
        },
    }
    if fake:
        resources = {"cpu": spec.cpu, "memory": spec.memory, "pods": str(spec.pods), **spec.resources}
        node["metadata"]["annotations"] = dict([FAKE])
        node["status"] = {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "InternalDNS", "address": spec.name},
                {"type": "Hostname", "address": spec.name},
            ],
        }
    return node


def labels(spec: NodeSpec) -> dict[str, str]:
    """What the cloud provider and the kubelet put on every node, and the group's own labels."""
    return {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": spec.name,
        "node.kubernetes.io/instance-type": spec.instance_type,
        "topology.kubernetes.io/region": spec.region,
        "topology.kubernetes.io/zone": spec.zone,
        "topology.k8s.aws/zone-id": spec.zone_id,
        "eks.amazonaws.com/nodegroup": spec.nodegroup,
        **spec.labels,
    }


def is_ready(node: Object) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def why_not_ready(node: Object) -> str:
    """The kubelet's own words."""
    for condition in node.get("status", {}).get("conditions", ()):
        if condition["type"] == "Ready":
            return str(condition.get("message") or condition.get("reason") or condition["status"])
    return "its kubelet has not reported yet"
