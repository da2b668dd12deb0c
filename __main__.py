"""One stack, from top to bottom. Resources are created in this order and destroyed in the reverse one."""

from __future__ import annotations

from pathlib import Path

import pulumi
import pulumi_aws as aws

from cluster.control_plane import ControlPlane
from cluster.identity import ClusterAccess, Roles
from cluster.network import Network
from cluster.node_groups import AcceleratedNodeGroups, NodeGroupContext, NodeRole, SystemNodeGroup
from cluster.registry import Registry
from cluster.reserved_capacity import ReservedCapacity
from cluster.settings import SettingsError, from_engine
from cluster.storage import Buckets, FileSystem
from workloads import kubernetes
from workloads.access import TrainingNamespace
from workloads.device_plugins import DevicePlugins
from workloads.observability import Prometheus
from workloads.outputs import export
from workloads.pod_policy import PodPolicy
from workloads.preparation import preparations
from workloads.training_job import training_jobs
from workloads.training_operator import TrainingOperator
from workloads.volumes import Volumes

try:
    s = from_engine(pulumi.get_stack(), pulumi.runtime.config.CONFIG.get(), Path("stacks"))
except SettingsError as error:
    raise pulumi.RunError(str(error)) from None

tags = {"shardyard:stack": s.name, **s.tags}
provider = aws.Provider(
    "aws",
    region=s.region,
    allowed_account_ids=list(s.allowed_account_ids) or None,
    default_tags={"tags": tags},
)


def after(*earlier: pulumi.Resource) -> pulumi.ResourceOptions:
    """Options of an AWS component that is created after others and destroyed before them."""
    return pulumi.ResourceOptions(providers=[provider], depends_on=list(earlier))


# AWS
capacity = ReservedCapacity(s.name, s.node_groups, after())
network = Network(s.name, s.network, region=s.region, opts=after(capacity))
buckets = Buckets(s.name, s.storage, after())
registry = Registry(s.name, s.image, region=s.region, delete_images=s.storage.delete_data, opts=after())
roles = Roles(s.name, s.access, region=s.region, buckets=buckets, registry=registry, opts=after(network))
nodes = NodeRole(s.name, after(network))
eks = ControlPlane(
    s.name, s.kubernetes, network=network, provider=provider, opts=after(network, roles, nodes)
)
access = ClusterAccess(s.name, roles, control_plane=eks, namespace=s.training.namespace, opts=after())
context = NodeGroupContext(
    control_plane=eks, network=network, node_role=nodes, kubernetes=s.kubernetes, tags=tags
)
system = SystemNodeGroup(s.name, s.system_node_group, context, after(eks))
lustre = FileSystem(
    s.name, s.storage, network=network, control_plane=eks, buckets=buckets, opts=after(system)
)
accelerated = AcceleratedNodeGroups(
    s.name, s.node_groups, context, capacity=capacity, opts=after(system, lustre)
)

# Kubernetes
target = kubernetes.connect(s.name, eks, depends_on=[system, accelerated, access])
namespace = TrainingNamespace(s.name, s.training.namespace, target, target.component())
policy = PodPolicy(s.name, s.training.namespace, target, target.component())
plugins = DevicePlugins(s.name, s.images, target, target.component())
volumes = Volumes(s.name, lustre.mount, s.training.namespace, target, target.component([namespace]))
operator = TrainingOperator(s.name, s.images, target, target.component())
prometheus = Prometheus(s.name, s, target, target.component([namespace]))

# The training program
ready = target.component([namespace, policy, plugins, volumes, operator, prometheus])
preparations(s, image=registry.image, target=target, opts=ready)
jobs = training_jobs(s, image=registry.image, bucket=buckets.checkpoints.bucket, target=target, opts=ready)

export(s, network, eks, accelerated, lustre, buckets, registry, prometheus, jobs)
