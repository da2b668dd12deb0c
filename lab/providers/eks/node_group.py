"""eks.ManagedNodeGroup: an aws.eks.NodeGroup with the cluster's own values as defaults."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks

from lab.providers.eks.arguments import Arguments

_OWN_TEMPLATE = (
    "amiId",
    "bootstrapExtraArgs",
    "bottlerocketSettings",
    "enableEfaSupport",
    "enableIMDSv2",
    "kubeletExtraArgs",
    "nodeadmExtraOptions",
    "userData",
)
"""For any of these, set to whatever, pulumi-eks writes a launch template of its own."""
_PASSED_ON = {
    "amiType": "ami_type",
    "capacityType": "capacity_type",
    "diskSize": "disk_size",
    "forceUpdateVersion": "force_update_version",
    "instanceTypes": "instance_types",
    "labels": "labels",
    "launchTemplate": "launch_template",
    "nodeGroupName": "node_group_name",
    "nodeGroupNamePrefix": "node_group_name_prefix",
    "releaseVersion": "release_version",
    "remoteAccess": "remote_access",
    "tags": "tags",
    "taints": "taints",
}
_SIZES = {"desiredSize": 2, "minSize": 1, "maxSize": 2}


class ManagedNodeGroup(pulumi.ComponentResource):
    node_group: aws.eks.NodeGroup

    def __init__(self, name: str, arguments: Arguments, opts: pulumi.ResourceOptions) -> None:
        values, keep_size = _values(arguments)
        super().__init__("eks:index:ManagedNodeGroup", name, None, opts)
        self.node_group = aws.eks.NodeGroup(
            name,
            opts=pulumi.ResourceOptions(
                parent=self, ignore_changes=["scalingConfig.desiredSize"] if keep_size else None
            ),
            **values,
        )
        self.register_outputs({"nodeGroup": self.node_group, "placementGroupName": ""})


def _values(arguments: Arguments) -> tuple[dict[str, Any], bool]:
    """The node group's arguments, and whether its size is somebody else's to change."""
    core = pulumi.Output.from_input(arguments.take("cluster")).apply(_core_of)
    cluster = core.apply(lambda known: known["cluster"])
    for name in _OWN_TEMPLATE:
        if arguments.take(name) is not None:
            arguments.refuse(
                name,
                "makes pulumi-eks write a launch template of its own, which the lab doesn't: put it into a "
                "launch template and pass that (launchTemplate)",
            )
    arguments.neutral("gpu", False, reason="does nothing by itself: set amiType")
    arguments.neutral("operatingSystem", reason="isn't supported in the lab: set amiType")
    arguments.neutral("placementGroupAvailabilityZone", reason="goes with enableEfaSupport")
    values: dict[str, Any] = {argument: arguments.take(name) for name, argument in _PASSED_ON.items()}

    role, role_arn = arguments.take("nodeRole"), arguments.take("nodeRoleArn")
    if (role is None) == (role_arn is None):
        arguments.refuse("nodeRole", "exactly one of nodeRole and nodeRoleArn has to be set")
    values["node_role_arn"] = role_arn or pulumi.Output.from_input(role).apply(lambda found: found.arn)

    version = arguments.take("version")
    if version is None and values["launch_template"] is None:
        version = cluster.apply(lambda found: found.version)
    values["version"] = version
    values["cluster_name"] = arguments.take("clusterName") or cluster.apply(lambda found: found.name)
    values["subnet_ids"] = arguments.take("subnetIds") or core.apply(_subnets_of)
    values["scaling_config"] = pulumi.Output.from_input(arguments.take("scalingConfig") or {}).apply(
        lambda given: {size: given.get(size, default) for size, default in _SIZES.items()}
    )
    keep_size = bool(arguments.take("ignoreScalingChanges"))
    arguments.finish()
    return values, keep_size


def _core_of(cluster: Any) -> Any:
    """pulumi-eks takes the Cluster or its `core`."""
    core = cluster.core if isinstance(cluster, pulumi_eks.Cluster) else cluster
    return pulumi.Output.from_input(core).apply(_as_mapping)


def _as_mapping(core: Any) -> Any:
    return core if isinstance(core, dict) else {"cluster": core.cluster, "subnetIds": core.subnet_ids}


def _subnets_of(core: Any) -> Any:
    for name in ("subnetIds", "privateSubnetIds", "publicSubnetIds"):
        if core.get(name):
            return core[name]
    return []
