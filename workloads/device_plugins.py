"""The NVIDIA and EFA device plugins: nodes offer nvidia.com/gpu and vpc.amazonaws.com/efa once theirs runs."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from cluster.launch_template import EFA_LABEL, GPU_LABEL
from cluster.settings.base import image_reference
from cluster.settings.images import Images
from workloads.kubernetes import Kubernetes

NAMESPACE = "kube-system"
_SOCKETS = "/var/lib/kubelet/device-plugins"


class DevicePlugins(pulumi.ComponentResource):
    """One DaemonSet for GPUs and one for EFA, each on the nodes that have the device."""

    def __init__(self, name: str, images: Images, target: Kubernetes, opts: pulumi.ResourceOptions) -> None:
        super().__init__("shardyard:workloads:DevicePlugins", name, None, opts)
        for label, spec in {
            "nvidia-device-plugin": nvidia(image_reference(images.nvidia_device_plugin)),
            "aws-efa-k8s-device-plugin": efa(image_reference(images.efa_device_plugin)),
        }.items():
            kubernetes.apps.v1.DaemonSet(
                f"{name}-{label}",
                metadata={"name": label, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": label}},
                spec=daemon_set_spec(label, spec),
                opts=target.object(self),
            )
        self.register_outputs({})


def nvidia(image: str) -> dict[str, Any]:
    """The plugin of NVIDIA/k8s-device-plugin, set by its environment variables."""
    return {
        "node_selector": {GPU_LABEL: "true"},
        "containers": [
            {
                "name": "nvidia-device-plugin",
                "image": image,
                # A GPU node without a GPU is broken: say so by crashing, not by offering none.
                "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "true"}],
                **_confined(),
                "volume_mounts": [{"name": "device-plugins", "mount_path": _SOCKETS}],
            }
        ],
        "volumes": [{"name": "device-plugins", "host_path": {"path": _SOCKETS}}],
    }


def efa(image: str) -> dict[str, Any]:
    """The plugin of aws/eks-charts. Its own chart tolerates no GPU taint, and its pods crash on nodes without EFA."""
    return {
        "node_selector": {EFA_LABEL: "true"},
        "host_network": True,
        "containers": [
            {
                "name": "aws-efa-k8s-device-plugin",
                "image": image,
                **_confined(),
                "volume_mounts": [
                    {"name": "device-plugins", "mount_path": _SOCKETS},
                    {"name": "infiniband", "mount_path": "/dev/infiniband"},
                ],
            }
        ],
        "volumes": [
            {"name": "device-plugins", "host_path": {"path": _SOCKETS}},
            {"name": "infiniband", "host_path": {"path": "/dev/infiniband"}},
        ],
    }


def daemon_set_spec(label: str, pod: dict[str, Any]) -> dict[str, Any]:
    """A DaemonSet whose pods live on every node that their selector names, whatever its taints."""
    labels = {"app.kubernetes.io/name": label}
    return {
        "selector": {"match_labels": labels},
        "update_strategy": {"type": "RollingUpdate"},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "priority_class_name": "system-node-critical",
                "automount_service_account_token": False,
                "tolerations": [{"operator": "Exists"}],
                **pod,
            },
        },
    }


def _confined() -> dict[str, Any]:
    return {
        "security_context": {"allow_privilege_escalation": False, "capabilities": {"drop": ["ALL"]}},
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "128Mi"},
        },
    }
