"""Node groups: the system node group with the add-ons that run on it, and the accelerated ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

from cluster import policies
from cluster.control_plane import AFTER_NODES, ControlPlane, addon
from cluster.launch_template import (
    accelerated_template,
    capacity_options,
    node_labels,
    node_taints,
    system_template,
)
from cluster.names import prefix
from cluster.network import Network
from cluster.reserved_capacity import ReservedCapacity
from cluster.settings.node_groups import NodeGroupSettings, SystemNodeGroupSettings
from cluster.settings.sections import KubernetesSettings

NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",  # a shell on a failing node without SSH keys or open ports
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
class NodeGroupContext:
    """What all node groups of a cluster share."""

    control_plane: ControlPlane
    network: Network
    node_role: NodeRole
    kubernetes: KubernetesSettings
    tags: Mapping[str, str]
    """For instances, volumes and interfaces: the provider's default tags don't apply to what EC2 launches."""


class SystemNodeGroup(pulumi.ComponentResource):
    """CPU nodes in all zones, then the add-ons that need nodes to run on."""

    def __init__(
        self,
        name: str,
        settings: SystemNodeGroupSettings,
        context: NodeGroupContext,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("shardyard:cluster:SystemNodeGroup", name, None, opts)
        label, kubernetes, control_plane = f"{name}-system", context.kubernetes, context.control_plane
        template = aws.ec2.LaunchTemplate(
            label,
            name_prefix=prefix(label, 99),
            **system_template(settings, {"Name": label, **context.tags}),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.node_group = eks.ManagedNodeGroup(
            label,
            cluster=control_plane.cluster,
            node_group_name_prefix=prefix(label, 37),
            node_role=context.node_role.role,
            subnet_ids=list(context.network.private_subnet_ids.values()),
            ami_type="AL2023_x86_64_STANDARD",
            version=kubernetes.version,
            release_version=settings.ami_release_version or kubernetes.ami_release_version,
            instance_types=[settings.instance_type],
            launch_template=_latest(template),
            scaling_config=_scaling(settings),
            ignore_scaling_changes=True,
            labels=node_labels("system", settings),
            tags=dict(settings.tags) or None,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[context.node_role, *control_plane.addons]),
        )
        self.addons = [
            addon(
                control_plane.cluster,
                f"{name}-{kind}",
                kind,
                kubernetes.addons.by_name()[kind],
                parent=self,
                depends_on=[self.node_group],
            )
            for kind in AFTER_NODES
        ]
        self.register_outputs({})


class AcceleratedNodeGroups(pulumi.ComponentResource):
    """Node groups with GPUs and EFA, each with a launch template of its own."""

    by_name: dict[str, aws.eks.NodeGroup]
    names: dict[str, pulumi.Output[str]]
    """The node groups' names in EKS, by their names in the stack file."""

    def __init__(
        self,
        name: str,
        node_groups: Mapping[str, NodeGroupSettings],
        context: NodeGroupContext,
        *,
        capacity: ReservedCapacity,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("shardyard:cluster:AcceleratedNodeGroups", name, None, opts)
        self.by_name = {}
        efa = self._efa_security_group(name, context.network.vpc_id) if node_groups else None
        for group_name, settings in node_groups.items():
            assert efa is not None
            label = f"{name}-{group_name}"
            template = aws.ec2.LaunchTemplate(
                label,
                name_prefix=prefix(label, 99),
                **accelerated_template(
                    settings,
                    {"Name": label, **context.tags},
                    security_groups=[context.control_plane.security_group_id, efa.id],
                    placement_group=capacity.placement_groups.get(group_name),
                    reservation_id=capacity.reservation_ids.get(group_name),
                ),
                opts=pulumi.ResourceOptions(parent=self),
            )
            self.by_name[group_name] = aws.eks.NodeGroup(
                label,
                cluster_name=context.control_plane.cluster_name,
                node_group_name_prefix=prefix(label, 37),
                node_role_arn=context.node_role.arn,
                subnet_ids=[context.network.private_subnet_ids[settings.zone]],
                ami_type="AL2023_x86_64_NVIDIA",
                version=context.kubernetes.version,
                release_version=settings.ami_release_version or context.kubernetes.ami_release_version,
                capacity_type=capacity_options(settings.capacity).capacity_type,
                launch_template=_latest(template),
                scaling_config=_scaling(settings),
                # A reservation in full use has no instance left to start beside the old one.
                update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1, update_strategy="MINIMAL"),
                labels=node_labels(group_name, settings),
                taints=[aws.eks.NodeGroupTaintArgs(**taint) for taint in node_taints(settings)],
                tags={**settings.tags, "Name": label},
                opts=pulumi.ResourceOptions(
                    parent=self,
                    delete_before_replace=True,  # a reservation has room for one group's nodes, not two
                    ignore_changes=["scalingConfig.desiredSize"],
                    depends_on=[context.node_role, *context.control_plane.addons],
                    custom_timeouts=pulumi.CustomTimeouts(create="60m", update="3h", delete="60m"),
                ),
            )
        self.names = {
            key: pulumi.Output.all(group.node_group_name, group.status, group.urn).apply(
                lambda known: name_of_created(*known)
            )
            for key, group in self.by_name.items()
        }
        self.register_outputs({"node_groups": self.names})

    def _efa_security_group(self, name: str, vpc_id: pulumi.Input[str]) -> aws.ec2.SecurityGroup:
        """All traffic between members, in both directions. EFA needs rules that name the group, not 0.0.0.0/0."""
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


def name_of_created(name: str, status: str | None, urn: str) -> str:
    """The name of a node group that EKS could create; `status` is EKS's own.

    Without this, the `up` after a failed creation would succeed: Pulumi's provider keeps the failed node group, finds
    nothing to change in it, and says nothing of its status. Raises pulumi.RunError for a failed one.
    """
    if status in ("CREATE_FAILED", "DELETE_FAILED"):
        raise pulumi.RunError(
            f"EKS could not {status.partition('_')[0].lower()} node group {name} ({status}). See why: "
            f"`aws eks describe-nodegroup --cluster-name CLUSTER --nodegroup-name {name} --query nodegroup.health`. "
            f"Once that is mended, create it anew: `pulumi up --replace '{urn}'`"
        )
    return name


def _latest(template: aws.ec2.LaunchTemplate) -> aws.eks.NodeGroupLaunchTemplateArgs:
    """The latest version, by number, so that the node group is updated with its template."""
    return aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version=template.latest_version.apply(str))


def _scaling(settings: SystemNodeGroupSettings | NodeGroupSettings) -> aws.eks.NodeGroupScalingConfigArgs:
    return aws.eks.NodeGroupScalingConfigArgs(
        min_size=settings.nodes.min, desired_size=settings.nodes.desired, max_size=settings.nodes.max
    )
