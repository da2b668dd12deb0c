"""The Node object that stands for an EC2 instance, as EKS's kubelets register it."""

from __future__ import annotations

import datetime

from lab.nodes.api import NodeSpec
from lab.nodes.client import Object
from lab.settings import LOOPBACK

FAKE = ("kwok.x-k8s.io/node", "fake")
"""The annotation that gives a node to kwok."""
KWOK_ADDRESS = "Kwok"
"""Type of the address that kwok answers on; the API server prefers it to all others."""
NODES = "/api/v1/nodes"
NODE_INFO = {
    "architecture": "amd64",
    "operatingSystem": "linux",
    "kubeletVersion": "v1.34.4",
    "kubeProxyVersion": "",
    "containerRuntimeVersion": "kwok://0.8.0",
    "osImage": "simulated by kwok",
    "kernelVersion": "",
    "bootID": "",
    "machineID": "",
    "systemUUID": "",
}
"""What a fake node says about itself."""


def node_object(spec: NodeSpec) -> Object:
    """Without status: that is the kubelet's to say."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels(spec)},
        "spec": {
            "providerID": f"aws:///{spec.zone}/{spec.instance_id}",
            "taints": taints(spec),
        },
    }


def fake_node_object(spec: NodeSpec, kubelet_port: int) -> Object:
    """A node that is Ready from its first moment, which spares kwok one request a node.

    The API server is sent to kwok on loopback for logs and exec, not to the instance's address: that one
    leads out of the lab, if anywhere.
    """
    resources = {"cpu": spec.cpu, "memory": spec.memory, "pods": str(spec.pods), **spec.resources}
    node = node_object(spec)
    node["metadata"]["annotations"] = dict([FAKE])
    node["status"] = {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [_ready()],
        "phase": "Running",  # what kwok's heartbeat asks for
        "nodeInfo": NODE_INFO,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        "addresses": [
            {"type": "InternalIP", "address": spec.private_ip},
            {"type": "InternalDNS", "address": spec.name},
            {"type": "Hostname", "address": spec.name},
            {"type": KWOK_ADDRESS, "address": LOOPBACK},
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


def taints(spec: NodeSpec) -> list[Object]:
    return [{"key": one.key, "value": one.value, "effect": one.effect} for one in spec.taints]


def _ready() -> Object:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kwok is posting ready status",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
