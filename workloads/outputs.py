"""What a person needs of a finished stack, as its outputs."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from cluster.control_plane import ControlPlane
from cluster.network import Network
from cluster.node_groups import AcceleratedNodeGroups
from cluster.registry import Registry
from cluster.settings import Settings
from cluster.storage import Buckets, FileSystem
from workloads.observability import Prometheus
from workloads.training_job import TrainingJob


def export(
    settings: Settings,
    network: Network,
    control_plane: ControlPlane,
    node_groups: AcceleratedNodeGroups,
    file_system: FileSystem,
    buckets: Buckets,
    registry: Registry,
    prometheus: Prometheus,
    jobs: Mapping[str, TrainingJob],
) -> None:
    """Names, addresses, and the commands to type next. Nothing here is secret: the kubeconfig asks for a token."""
    namespace = settings.training.namespace
    outputs: dict[str, object] = {
        "region": settings.region,
        "cluster": control_plane.cluster_name,
        "endpoint": control_plane.endpoint,
        "kubeconfig": control_plane.kubeconfig,
        "vpcId": network.vpc_id,
        "nodeGroups": node_groups.names,
        "fileSystemId": file_system.mount.file_system_id,
        "dataBucket": buckets.data.bucket,
        "checkpointBucket": buckets.checkpoints.bucket,
        "repository": registry.repository.repository_url,
        "image": registry.image,
        # What `pulumi destroy` leaves, and what goes on being billed then.
        "keptOnDestroy": []
        if settings.storage.delete_data
        else [buckets.data.arn, buckets.checkpoints.arn, registry.repository.arn],
        "namespace": namespace,
        "jobs": {
            name: {
                "nodeGroup": settings.training.jobs[name].node_group,
                "logs": f"kubectl -n {namespace} logs -f {job.leader}",
            }
            for name, job in jobs.items()
        },
        "prometheus": {"address": prometheus.address, "command": prometheus.forward},
    }
    for name, value in outputs.items():
        pulumi.export(name, value)
