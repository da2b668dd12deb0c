"""The Node object of a node that kwok simulates."""

from __future__ import annotations

import datetime

from lab.nodes.api import NodeSpec
from lab.nodes.client.api import Object
from lab.nodes.components.api_server import SIMULATED_KUBELET
from lab.nodes.registration.node_object import node_object
from lab.settings import LOOPBACK

SIMULATED = ("kwok.x-k8s.io/node", "fake")
"""The annotation of the nodes that kwok manages."""
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
"""What the node reports about itself."""


def simulated_node_object(spec: NodeSpec, kubelet_port: int) -> Object:
    """A node that is Ready when it is created, which saves kwok one request per node.

    The API server finds kwok's address on loopback for logs and exec, because the instance's address is not
    reachable in the lab.
    """
    resources = {"cpu": spec.cpu, "memory": spec.memory, "pods": str(spec.pods), **spec.resources}
    node = node_object(spec)
    node["metadata"]["annotations"] = dict([SIMULATED])
    node["status"] = {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [_ready()],
        "phase": "Running",  # kwok's heartbeat stage selects it
        "nodeInfo": NODE_INFO,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
        "addresses": [
            {"type": "InternalIP", "address": spec.private_ip},
            {"type": "InternalDNS", "address": spec.name},
            {"type": "Hostname", "address": spec.name},
            {"type": SIMULATED_KUBELET, "address": LOOPBACK},
        ],
    }
    return node


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
