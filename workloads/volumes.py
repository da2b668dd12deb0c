"""The file system as a volume: one PersistentVolume that says what is there, and a claim in the training namespace."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from cluster.storage import Mount
from workloads.kubernetes import Kubernetes

CLAIM = "fsx"


class Volumes(pulumi.ComponentResource):
    """Static provisioning: the CSI driver mounts what exists, and creates or deletes nothing."""

    def __init__(
        self,
        name: str,
        mount: Mount,
        namespace: pulumi.Input[str],
        target: Kubernetes,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("shardyard:workloads:Volumes", name, None, opts)
        volume = kubernetes.core.v1.PersistentVolume(
            f"{name}-{CLAIM}",
            metadata={"name": f"{name}-{CLAIM}"},
            spec=volume_spec(mount),
            opts=target.object(self),
        )
        kubernetes.core.v1.PersistentVolumeClaim(
            f"{name}-{CLAIM}",
            metadata={"name": CLAIM, "namespace": namespace},
            spec={
                "access_modes": ["ReadWriteMany"],
                "storage_class_name": "",  # no class: nothing may be provisioned for this claim
                "volume_name": f"{name}-{CLAIM}",
                "resources": {"requests": {"storage": f"{mount.capacity_gib}Gi"}},
            },
            opts=target.object(self, depends_on=[volume]),
        )
        self.register_outputs({})


def volume_spec(mount: Mount) -> dict[str, Any]:
    return {
        "capacity": {"storage": f"{mount.capacity_gib}Gi"},
        "volume_mode": "Filesystem",
        "access_modes": ["ReadWriteMany"],
        "persistent_volume_reclaim_policy": "Retain",
        "storage_class_name": "",
        "mount_options": ["flock"],
        "csi": {
            "driver": "fsx.csi.aws.com",
            "volume_handle": mount.file_system_id,
            "volume_attributes": {"dnsname": mount.dns_name, "mountname": mount.mount_name},
        },
    }
