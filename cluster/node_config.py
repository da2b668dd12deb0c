"""User data of a node: the part of nodeadm's configuration that is ours.

EKS merges it with its own (cluster name, endpoint, CA) when the node group uses an EKS-optimized
AL2023 image and the launch template names no image.
"""

from __future__ import annotations

import base64
import json

_BOUNDARY = "shardyard"


def node_config(*, max_pods: int, local_disks: int) -> dict[str, object]:
    """A NodeConfig (awslabs/amazon-eks-ami, nodeadm/api/v1alpha1).

    With local NVMe disks, nodeadm stripes them (RAID0) under /mnt/k8s-disks/0 and moves containerd's
    and the kubelet's state there.
    """
    spec: dict[str, object] = {"kubelet": {"config": {"maxPods": max_pods}}}
    if local_disks:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def user_data(*, max_pods: int, local_disks: int) -> str:
    """The configuration as a MIME message in base64, as a launch template takes it."""
    config = json.dumps(node_config(max_pods=max_pods, local_disks=local_disks), indent=2, sort_keys=True)
    message = "\n".join(
        [
            "MIME-Version: 1.0",
            f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"',
            "",
            f"--{_BOUNDARY}",
            "Content-Type: application/node.eks.aws",
            "",
            config,
            f"--{_BOUNDARY}--",
            "",
        ]
    )
    return base64.b64encode(message.encode()).decode()
