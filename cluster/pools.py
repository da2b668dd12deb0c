"""Node pools: the system pool with the add-ons that live on it, and the accelerated ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

from cluster import policies
from cluster.capacity import Capacity
from cluster.control_plane import AFTER_NODES, ControlPlane, addon
from cluster.launch_template import accelerated_template, node_labels, node_taints, purchase, system_template
from cluster.names import prefix
from cluster.network import Network
from cluster.settings.pools import AcceleratedPool, SystemPool
from cluster.settings.sections import Kubernetes

NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",  # a shell on a sick node without SSH keys or open ports
)


class NodeRole(pulumi.ComponentResource):
    """The role of every node: join the cluster, pull images, be reached by Systems Manager."""

    arn: pulumi.Output[str]
    role: aws.iam.Role

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("shardyard:cluster:NodeRole", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.role = aws.iam.Role(
            f"{name}-node", assume_role_policy=policies.trust_service("ec2.amazonaws.com"), opts=child
        )
        for policy in NODE_POLICIES:
            aws.iam.RolePolicyAttachment(
                f"{name}-node-{policy}",
                role=self.role.name,
                policy_arn=f"arn:aws:iam::aws:policy/{policy}",
                opts=child,
            )
        self.arn = self.role.arn
        self.register_outputs({"arn": self.arn})


@dataclass(frozen=True)
class Place:
    """Where pools go, and what they have in common."""

    control_plane: ControlPlane
    network: Network
    node_role: NodeRole
    kubernetes: Kubernetes
    tags: Mapping[str, str]
    """For instances, volumes and interfaces: the provider's default tags don't reach what EC2 launches."""


class System(pulumi.ComponentResource):
    """CPU nodes over all zones, then the add-ons that need nodes to run on."""

    def __init__(
        self,
        name: str,
        settings: SystemPool,
        place: Place,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("shardyard:cluster:SystemPool", name, None, opts)
        label, kubernetes, control_plane = f"{name}-system", place.kubernetes, place.control_plane
        template = aws.ec2.LaunchTemplate(
            label,
            name_prefix=prefix(label, 99),
            **system_template(settings, {"Name": label, **place.tags}),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.pool = eks.ManagedNodeGroup(
            label,
            cluster=control_plane.cluster,
            node_group_name_prefix=prefix(label, 37),
            node_role=place.node_role.role,
            subnet_ids=list(place.network.private_subnet_ids.values()),
            ami_type="AL2023_x86_64_STANDARD",
            version=kubernetes.version,
            release_version=settings.ami_release or kubernetes.ami_release,
            instance_types=[settings.instance_type],
            launch_template=_latest(template),
            scaling_config=_scaling(settings),
            ignore_scaling_changes=True,
            labels=node_labels("system", settings),
            tags=dict(settings.tags) or None,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[place.node_role, *control_plane.addons]),
        )
        self.addons = [
            addon(
                control_plane.cluster,
                f"{name}-{kind}",
                kind,
                kubernetes.addons.by_name()[kind],
                parent=self,
                depends_on=[self.pool],
            )
            for kind in AFTER_NODES
        ]
        self.register_outputs({})


class AcceleratedPools(pulumi.ComponentResource):
    """Pools with GPUs and EFA: a launch template and a managed node group each."""

    node_groups: dict[str, aws.eks.NodeGroup]

    def __init__(
        self,
        name: str,
        pools: Mapping[str, AcceleratedPool],
        place: Place,
        *,
        capacity: Capacity,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("shardyard:cluster:AcceleratedPools", name, None, opts)
        self.node_groups = {}
        fabric = self._fabric(name, place.network.vpc_id) if pools else None
        for pool_name, pool in pools.items():
            assert fabric is not None
            label = f"{name}-{pool_name}"
            template = aws.ec2.LaunchTemplate(
                label,
                name_prefix=prefix(label, 99),
                **accelerated_template(
                    pool,
                    {"Name": label, **place.tags},
                    security_groups=[place.control_plane.security_group_id, fabric.id],
                    placement_group=capacity.placement_groups.get(pool_name),
                    reservation_id=capacity.reservation_ids.get(pool_name),
                ),
                opts=pulumi.ResourceOptions(parent=self),
            )
            self.node_groups[pool_name] = aws.eks.NodeGroup(
                label,
                cluster_name=place.control_plane.cluster_name,
                node_group_name_prefix=prefix(label, 37),
                node_role_arn=place.node_role.arn,
                subnet_ids=[place.network.private_subnet_ids[pool.zone]],
                ami_type="AL2023_x86_64_NVIDIA",
                version=place.kubernetes.version,
                release_version=pool.ami_release or place.kubernetes.ami_release,
                capacity_type=purchase(pool.capacity).capacity_type,
                launch_template=_latest(template),
                scaling_config=_scaling(pool),
                # A full reservation has no spare node to put beside the old one.
                update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1, update_strategy="MINIMAL"),
                labels=node_labels(pool_name, pool),
                taints=[aws.eks.NodeGroupTaintArgs(**taint) for taint in node_taints(pool)],
                tags={**pool.tags, "Name": label},
                opts=pulumi.ResourceOptions(
                    parent=self,
                    delete_before_replace=True,  # the reservation holds one group's nodes, not two
                    ignore_changes=["scalingConfig.desiredSize"],
                    depends_on=[place.node_role, *place.control_plane.addons],
                    custom_timeouts=pulumi.CustomTimeouts(create="60m", update="3h", delete="60m"),
                ),
            )
        self.register_outputs(
            {"node_groups": {key: group.node_group_name for key, group in self.node_groups.items()}}
        )

    def _fabric(self, name: str, vpc_id: pulumi.Input[str]) -> aws.ec2.SecurityGroup:
        """EFA's traffic: everything, both ways, between members. A rule for 0.0.0.0/0 doesn't cover it."""
        group = aws.ec2.SecurityGroup(
            f"{name}-efa",
            vpc_id=vpc_id,
            description="All traffic between nodes with EFA",
            tags={"Name": f"{name}-efa"},
            opts=pulumi.ResourceOptions(parent=self),
        )
        for direction, rule in (
            ("in", aws.vpc.SecurityGroupIngressRule),
            ("out", aws.vpc.SecurityGroupEgressRule),
        ):
            rule(
                f"{name}-efa-{direction}",
                security_group_id=group.id,
                referenced_security_group_id=group.id,
                ip_protocol="-1",
                opts=pulumi.ResourceOptions(parent=self),
            )
        return group


def _latest(template: aws.ec2.LaunchTemplate) -> aws.eks.NodeGroupLaunchTemplateArgs:
    """The version that this program just wrote, by number, so that a node group follows its template."""
    return aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version=template.latest_version.apply(str))


def _scaling(pool: SystemPool | AcceleratedPool) -> aws.eks.NodeGroupScalingConfigArgs:
    return aws.eks.NodeGroupScalingConfigArgs(
        min_size=pool.nodes.min, desired_size=pool.nodes.desired, max_size=pool.nodes.max
    )
