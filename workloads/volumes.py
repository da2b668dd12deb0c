"""The file system as a volume: one PersistentVolume that says what is there, and a claim in the training namespace."""

from __future__ import annotations

import pulumi

from cluster.storage import Mount
from workloads.kubernetes import Kubernetes
from workloads.manifests import Manifest
from workloads.objects import Object

CLAIM = "fsx"


class Volumes(pulumi.ComponentResource):
    """Static provisioning: the CSI driver mounts what exists, and creates or deletes nothing."""

    def __init__(
        self,
        name: str,
        mount: Mount,
        namespace: str,
        target: Kubernetes,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("shardyard:workloads:Volumes", name, None, opts)
        volume = Object(f"{name}-{CLAIM}", persistent_volume(f"{name}-{CLAIM}", mount), target.object(self))
        claim = persistent_volume_claim(f"{name}-{CLAIM}", namespace, mount)
        Object(f"{name}-{CLAIM}", claim, target.object(self, depends_on=[volume]))
        self.register_outputs({})


def persistent_volume(name: str, mount: Mount) -> Manifest:
    """The file system, as something that a claim can be bound to."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": f"{mount.capacity_gib}Gi"},
            "volumeMode": "Filesystem",
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "mountOptions": ["flock"],
            "csi": {
                "driver": "fsx.csi.aws.com",
                "volumeHandle": mount.file_system_id,
                "volumeAttributes": {"dnsname": mount.dns_name, "mountname": mount.mount_name},
            },
        },
    }


def persistent_volume_claim(volume: str, namespace: str, mount: Mount) -> Manifest:
    """What pods name to mount the file system."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",  # no class: nothing may be provisioned for this claim
            "volumeName": volume,
            "resources": {"requests": {"storage": f"{mount.capacity_gib}Gi"}},
        },
    }
