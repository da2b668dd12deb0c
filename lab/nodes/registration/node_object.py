"""The Node object of an EC2 instance, as EKS's kubelets register it."""

from __future__ import annotations

from lab.nodes.api import NodeSpec
from lab.nodes.client.api import Object


def node_object(spec: NodeSpec) -> Object:
    """The object without its status, which the kubelet reports."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels(spec)},
        "spec": {
            "providerID": f"aws:///{spec.zone}/{spec.instance_id}",
            "taints": taints(spec),
        },
    }


def labels(spec: NodeSpec) -> dict[str, str]:
    """The labels that the cloud provider and the kubelet put on every node, and the node group's own."""
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


def taints(spec: NodeSpec) -> list[Object]:
    return [{"key": one.key, "value": one.value, "effect": one.effect} for one in spec.taints]
