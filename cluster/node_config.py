"""User data of a node: our part of nodeadm's configuration.

EKS merges it with its own (cluster name, endpoint, CA) when the node group uses an EKS-optimized
AL2023 image and the launch template names no image.
"""

from __future__ import annotations

import base64
import json

_BOUNDARY = "shardyard"


def node_config(*, max_pods: int, instance_store_volumes: int) -> dict[str, object]:
    """A NodeConfig (awslabs/amazon-eks-ami, nodeadm/api/v1alpha1).

    nodeadm stripes instance store volumes (RAID0) under /mnt/k8s-disks/0 and moves containerd's
    and the kubelet's state there.
    """
    spec: dict[str, object] = {"kubelet": {"config": {"maxPods": max_pods}}}
    if instance_store_volumes:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def user_data(*, max_pods: int, instance_store_volumes: int) -> str:
    """The configuration as a MIME message in base64, as a launch template expects it."""
    config = json.dumps(
        node_config(max_pods=max_pods, instance_store_volumes=instance_store_volumes),
        indent=2,
        sort_keys=True,
    )
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
