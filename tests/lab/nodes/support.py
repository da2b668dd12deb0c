"""What tests of nodes share."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.nodes.api import NodeSpec, Taint
from lab.nodes.client.api import ApiClient
from lab.nodes.runtime import KubernetesRuntime
from lab.settings import Lab

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
P5 = {GPU: 8, EFA: 32}
GPU_TAINT = Taint(GPU, "true", "NoSchedule")


def spec(number: int, *, real: bool = False, **changes: Any) -> NodeSpec:
    """A node of a group `system` or whatever `changes` say; numbers give names and addresses."""
    address = f"10.20.{number // 250}.{number % 250 + 1}"
    facts: dict[str, Any] = {
        "name": f"ip-{address.replace('.', '-')}.ec2.internal",
        "instance_id": f"i-{number:017x}",
        "instance_type": "m6i.large",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "zone_id": "use1-az1",
        "private_ip": address,
        "nodegroup": "system",
        "real": real,
    }
    return NodeSpec(**(facts | changes))


@dataclass(frozen=True)
class World:
    """A running cluster, the lab that it is in, and an admin's way in."""

    lab: Lab
    runtime: KubernetesRuntime
    name: str
    client: ApiClient

    @property
    def kubeconfig(self) -> Path:
        return self.lab.state / "clusters" / self.name / "admin.kubeconfig"

    def kubectl(self, *arguments: str, text: str | None = None, check: bool = True) -> str:
        """kubectl's output, both streams if it fails (then `check` decides whether the test does)."""
        command = [
            self.lab.bin / "kubectl",
            f"--kubeconfig={self.kubeconfig}",
            "--request-timeout=30s",
            *arguments,
        ]
        done = subprocess.run([*map(str, command)], input=text, capture_output=True, text=True, timeout=120)
        assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", text="\n---\n".join(json.dumps(item) for item in objects))

    def pod_phase(self, name: str) -> str:
        return self.kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")

    def allocatable(self, node: str) -> dict[str, str]:
        found: dict[str, str] = self.client.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]
        return found


def pod(
    world: World, name: str, node: str, command: Sequence[str] = ("sleep", "1000"), **changes: Any
) -> dict[str, Any]:
    """A pod of Debian's Python on the node; `changes` go into its spec, `container` into its container."""
    container = {"name": "main", "image": f"{world.lab.registry}/test/base:1", "command": list(command)}
    container |= changes.pop("container", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            **changes,
        },
    }


def plugin(world: World, name: str, image: str, nodegroup: str) -> dict[str, Any]:
    """The DaemonSet of a device plugin on the nodes of a group, as the program makes it."""
    folder = "/var/lib/kubelet/device-plugins"
    container = {
        "name": "plugin",
        "image": f"{world.lab.registry}/{image}",
        "volumeMounts": [{"name": "plugins", "mountPath": folder}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeSelector": {"eks.amazonaws.com/nodegroup": nodegroup},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [container],
                    "volumes": [{"name": "plugins", "hostPath": {"path": folder}}],
                },
            },
        },
    }
