"""Managed node groups: create, describe, list, update, delete."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from lab.aws.actions import ApiError, Call, action
from lab.aws.ec2.launch import template_data
from lab.aws.ec2.tags import backend
from lab.aws.eks import node_workers
from lab.aws.eks.access import follow_access, new_entry
from lab.aws.eks.checks import check_role
from lab.aws.eks.images import release
from lab.aws.eks.nodegroup_rules import AMI_TYPES, check_scaling, check_sources, check_taints
from lab.aws.eks.state import Cluster, Nodegroup, Update, active_cluster, find_cluster, find_nodegroup, now

SCALING = {"minSize": 1, "maxSize": 2, "desiredSize": 2}


def described(cluster: Cluster, group: Nodegroup) -> dict[str, Any]:
    return {
        "nodegroupName": group.name,
        "nodegroupArn": group.arn,
        "clusterName": cluster.name,
        "version": group.version,
        "releaseVersion": group.release_version,
        "createdAt": group.created,
        "modifiedAt": group.modified,
        "status": group.status,
        "capacityType": group.capacity_type,
        "scalingConfig": group.scaling,
        "instanceTypes": group.instance_types or None,
        "subnets": group.subnets,
        "remoteAccess": group.remote_access,
        "amiType": group.ami_type,
        "nodeRole": group.role_arn,
        "labels": group.labels,
        "taints": group.taints,
        "resources": {"autoScalingGroups": [{"name": group.autoscaling_group}]},
        "diskSize": group.disk_size,
        "health": {"issues": [issue.described() for issue in group.issues]},
        "updateConfig": group.update_config,
        "nodeRepairConfig": group.repair_config or None,
        "launchTemplate": group.launch_template,
        "tags": group.tags,
    }


def launch_template(call: Call) -> dict[str, str] | None:
    """id, name and number of the version that the call means; None without a template."""
    given = call.get("launchTemplate")
    if not given:
        return None
    ec2 = backend(call)
    template = (
        ec2.get_launch_template(given["id"])
        if given.get("id")
        else ec2.get_launch_template_by_name(given["name"])
    )
    version = template.get_version(given.get("version") or "$Default")
    return {"id": template.id, "name": template.name, "version": str(version.number)}


@action("eks", "CreateNodegroup")
def create_nodegroup(call: Call) -> dict[str, Any]:
    cluster, name = active_cluster(call), call["nodegroupName"]
    if name in cluster.nodegroups:
        raise ApiError(
            "ResourceInUseException",
            f"NodeGroup already exists with name {name} and cluster name {cluster.name}",
            clusterName=cluster.name,
            nodegroupName=name,
        )
    check_role(call, call["nodeRole"], "ec2.amazonaws.com")
    template = launch_template(call)
    data = template_data(backend(call), _reference(template))
    check_sources(call, cluster, data)
    scaling = {**SCALING, **call.get("scalingConfig", {})}
    check_scaling(scaling)
    check_taints(call.get("taints", []))
    ami_type = call.get("amiType") or ("CUSTOM" if data.get("ImageId") else "AL2023_x86_64_STANDARD")
    version = call.get("version") or cluster.version
    group = Nodegroup(
        name=name,
        arn=call.arn("eks", f"nodegroup/{cluster.name}/{name}/{uuid4()}"),
        version=version,
        release_version=data.get("ImageId") or call.get("releaseVersion") or release(version),
        role_arn=call["nodeRole"],
        subnets=list(call["subnets"]),
        ami_type=ami_type,
        capacity_type=call.get("capacityType", "ON_DEMAND"),
        instance_types=list(call.get("instanceTypes", [] if data.get("InstanceType") else ["t3.medium"])),
        disk_size=None if template else call.get("diskSize", 20),
        scaling=scaling,
        update_config=_update_config(call.get("updateConfig")),
        repair_config=dict(call.get("nodeRepairConfig", {})),
        remote_access=call.get("remoteAccess"),
        launch_template=template,
        labels=dict(call.get("labels", {})),
        taints=list(call.get("taints", [])),
        tags=dict(call.get("tags", {})),
        autoscaling_group=f"eks-{name}-{uuid4()}",
    )
    assert ami_type in AMI_TYPES
    cluster.nodegroups[name] = group
    if group.role_arn not in cluster.entries and cluster.access["authenticationMode"] != "CONFIG_MAP":
        new_entry(cluster, group.role_arn, "EC2_LINUX")
        follow_access(call.world, cluster)
    node_workers.create(call.world, cluster, group)
    return {"nodegroup": described(cluster, group)}


def _reference(template: dict[str, str] | None) -> dict[str, str] | None:
    return template and {"LaunchTemplateId": template["id"], "Version": template["version"]}


def _update_config(given: dict[str, Any] | None) -> dict[str, Any]:
    """An update strategy that isn't given is not shown either: the vendor's provider has no default for it."""
    given = dict(given or {})
    if not {"maxUnavailable", "maxUnavailablePercentage"} & set(given):
        given["maxUnavailable"] = 1
    return given


@action("eks", "DescribeNodegroup")
def describe_nodegroup(call: Call) -> dict[str, Any]:
    cluster = find_cluster(call)
    return {"nodegroup": described(cluster, find_nodegroup(call, cluster))}


@action("eks", "ListNodegroups")
def list_nodegroups(call: Call) -> dict[str, Any]:
    return {"nodegroups": sorted(find_cluster(call).nodegroups)}


def _changeable(call: Call) -> tuple[Cluster, Nodegroup]:
    cluster = active_cluster(call)
    group = find_nodegroup(call, cluster)
    if group.status not in ("ACTIVE", "DEGRADED"):
        raise ApiError(
            "ResourceInUseException",
            f"Nodegroup cannot be updated as it is currently not in Active State: {group.status}",
            clusterName=cluster.name,
            nodegroupName=group.name,
        )
    return cluster, group


@action("eks", "UpdateNodegroupConfig")
def update_nodegroup_config(call: Call) -> dict[str, Any]:
    cluster, group = _changeable(call)
    if scaling := call.get("scalingConfig"):
        check_scaling({**group.scaling, **scaling})
        group.scaling = {**group.scaling, **scaling}
    labels, taints = call.get("labels", {}), call.get("taints", {})
    for key in labels.get("removeLabels", []):
        group.labels.pop(key, None)
    group.labels.update(labels.get("addOrUpdateLabels", {}))
    changed = [*taints.get("addOrUpdateTaints", []), *taints.get("removeTaints", [])]
    names = {(taint["key"], taint["effect"]) for taint in changed}
    group.taints = [one for one in group.taints if (one["key"], one["effect"]) not in names]
    group.taints.extend(taints.get("addOrUpdateTaints", []))
    check_taints(group.taints)
    if update_config := call.get("updateConfig"):
        group.update_config = _update_config(update_config)
    if repair := call.get("nodeRepairConfig"):
        group.repair_config = dict(repair)
    parameters = {name: str(call[name]) for name in ("scalingConfig", "labels", "taints") if call.get(name)}
    update = _record(group, Update("ConfigUpdate", parameters))
    node_workers.reconfigure(call.world, cluster, group, update)
    return {"update": update.described()}


@action("eks", "UpdateNodegroupVersion")
def update_nodegroup_version(call: Call) -> dict[str, Any]:
    """Replaces every node: first the new one (DEFAULT) or first the old one (MINIMAL)."""
    cluster, group = _changeable(call)
    if template := launch_template(call):
        if not group.launch_template or template["id"] != group.launch_template["id"]:
            raise ApiError(
                "InvalidParameterException",
                "You cannot change the launch template of a node group, only its version.",
                nodegroupName=group.name,
            )
        data = template_data(backend(call), _reference(template))
        group.launch_template = template
        group.release_version = data.get("ImageId") or group.release_version
    group.version = call.get("version", group.version)
    group.release_version = call.get("releaseVersion", group.release_version)
    parameters = {"Version": group.version, "ReleaseVersion": group.release_version}
    update = _record(group, Update("VersionUpdate", parameters))
    node_workers.replace(call.world, cluster, group, update)
    return {"update": update.described()}


def _record(group: Nodegroup, update: Update) -> Update:
    group.updates[update.id] = update
    group.status, group.modified = "UPDATING", now()
    return update


@action("eks", "DeleteNodegroup")
def delete_nodegroup(call: Call) -> dict[str, Any]:
    cluster = find_cluster(call)
    group = find_nodegroup(call, cluster)
    if group.status == "DELETING":
        raise ApiError("ResourceInUseException", "Nodegroup is being deleted.", nodegroupName=group.name)
    group.status, group.modified = "DELETING", now()
    node_workers.delete(call.world, cluster, group)
    return {"nodegroup": described(cluster, group)}
