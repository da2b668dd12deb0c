"""The NVIDIA and EFA device plugins: nodes offer nvidia.com/gpu and vpc.amazonaws.com/efa once theirs runs."""

from __future__ import annotations

import pulumi

from cluster.labels import EFA_LABEL, GPU_LABEL
from cluster.settings.base import image_reference
from cluster.settings.images import Images
from workloads.kubernetes import Kubernetes
from workloads.manifests import Manifest
from workloads.objects import Object

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
            Object(f"{name}-{label}", daemon_set(label, spec), target.object(self))
        self.register_outputs({})


def nvidia(image: str) -> Manifest:
    """The plugin of NVIDIA/k8s-device-plugin, set by its environment variables."""
    return {
        "nodeSelector": {GPU_LABEL: "true"},
        "containers": [
            {
                "name": "nvidia-device-plugin",
                "image": image,
                # A GPU node without a GPU is broken: say so by crashing, not by offering none.
                "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "true"}],
                **_confined(),
                "volumeMounts": [{"name": "device-plugins", "mountPath": _SOCKETS}],
            }
        ],
        "volumes": [{"name": "device-plugins", "hostPath": {"path": _SOCKETS}}],
    }


def efa(image: str) -> Manifest:
    """The plugin of aws/eks-charts. Its own chart tolerates no GPU taint, and its pods crash on nodes without EFA."""
    return {
        "nodeSelector": {EFA_LABEL: "true"},
        "hostNetwork": True,
        "containers": [
            {
                "name": "aws-efa-k8s-device-plugin",
                "image": image,
                **_confined(),
                "volumeMounts": [
                    {"name": "device-plugins", "mountPath": _SOCKETS},
                    {"name": "infiniband", "mountPath": "/dev/infiniband"},
                ],
            }
        ],
        "volumes": [
            {"name": "device-plugins", "hostPath": {"path": _SOCKETS}},
            {"name": "infiniband", "hostPath": {"path": "/dev/infiniband"}},
        ],
    }


def daemon_set(label: str, pod: Manifest) -> Manifest:
    """A DaemonSet whose pods live on every node that their selector names, whatever its taints."""
    labels = {"app.kubernetes.io/name": label}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": label, "namespace": NAMESPACE, "labels": labels},
        "spec": _daemon_set_spec(labels, pod),
    }


def _daemon_set_spec(labels: dict[str, str], pod: Manifest) -> Manifest:
    return {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"type": "RollingUpdate"},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "priorityClassName": "system-node-critical",
                "automountServiceAccountToken": False,
                "tolerations": [{"operator": "Exists"}],
                **pod,
            },
        },
    }


def _confined() -> Manifest:
    return {
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "128Mi"},
        },
    }
