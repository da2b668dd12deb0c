"""EKS: clusters, node groups, add-ons, access entries and pod identities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from lab.providers.aws.convert import from_api
from lab.providers.aws.operation import Failed, Operation, search
from lab.providers.aws.table import (
    Autoname,
    Call,
    Property,
    Resource,
    Status,
    Step,
    Tags,
    inputs,
    out,
)

_TAGS = Tags(
    add="TagResource",
    remove="UntagResource",
    target={"resourceArn": "{arn}"},
    member="tags",
    keys="tagKeys",
    form="map",
)
_BUSY = ["ResourceInUseException"]
_ROLE_NOT_YET = [
    "The role with name",
    "could not be assumed",
    "is not authorized to be assumed",
    "Role with arn",
]
"""What EKS says of a role that IAM hasn't spread yet (terraform-provider-aws retries on the same)."""


def _health(description: Mapping[str, Any]) -> Iterable[str]:
    for issue in (description.get("health") or {}).get("issues", []):
        resources = ", ".join(issue.get("resourceIds", []))
        yield f"{issue.get('code')}: {issue.get('message')}" + (f" ({resources})" if resources else "")


def _status(minutes: float) -> Status:
    return Status(
        "status",
        ready=frozenset({"ACTIVE", "DEGRADED"}),
        failed=frozenset({"CREATE_FAILED", "DELETE_FAILED", "UPDATE_FAILED", "FAILED"}),
        reason=_health,
        minutes=minutes,
    )


def _applied(operation: Operation, answer: Mapping[str, Any], **names: str) -> None:
    """Wait for an EKS update to succeed; raises Failed with what it says when it doesn't."""
    update = answer["update"]["id"]

    def look() -> bool | None:
        found = operation.call("DescribeUpdate", updateId=update, **names)["update"]
        if found["status"] in ("Failed", "Cancelled"):
            errors = "; ".join(
                f"{each.get('errorCode')}: {each.get('errorMessage')}" for each in found["errors"]
            )
            raise Failed(f"the update {found['type']} of {operation.id} failed: {errors or found['status']}")
        return True if found["status"] == "Successful" else None

    operation.poll(look, "waiting for the update")


# Clusters


def _cluster_update(*names: str) -> Step:
    """EKS takes one kind of change per UpdateClusterConfig."""

    def act(operation: Operation) -> None:
        properties = [operation.resource.by_name[name] for name in names]
        call = Call("UpdateClusterConfig", {"name": "{id}"}, more=_update_parameters(names))
        _applied(operation, operation.run(call, properties), name=operation.id)

    return Step(names, act, on_create=False)


def _update_parameters(names: Iterable[str]) -> Any:
    def more(operation: Operation) -> Mapping[str, Any]:
        if "enabledClusterLogTypes" in names:
            return _logging(operation, complete=True)
        if "accessConfig" in names:
            # Only the mode can change; the creator's bootstrap permission is of the create call.
            return {
                "accessConfig": {"authenticationMode": operation.inputs["accessConfig"]["authenticationMode"]}
            }
        return {}

    return more


def _logging(operation: Operation, complete: bool = False) -> dict[str, Any]:
    """EKS turns log types on and off by group; an update names those to turn off, too."""
    on = sorted(operation.inputs.get("enabledClusterLogTypes") or [])
    off = sorted({"api", "audit", "authenticator", "controllerManager", "scheduler"} - set(on))
    groups = [{"types": on, "enabled": True}] if on else []
    if complete and off:
        groups.append({"types": off, "enabled": False})
    return {"logging": {"clusterLogging": groups}} if groups else {}


def _update_vpc(operation: Operation) -> None:
    """Subnets and security groups are one update, the endpoints' reach is another."""
    before, after = operation.state.get("vpcConfig") or {}, operation.inputs["vpcConfig"]
    for members in (
        ("endpointPublicAccess", "endpointPrivateAccess", "publicAccessCidrs"),
        ("subnetIds", "securityGroupIds"),
    ):
        wanted = {name: after[name] for name in members if after.get(name) is not None}
        changed = any(_unordered(before.get(name)) != _unordered(value) for name, value in wanted.items())
        if changed:
            answer = operation.call("UpdateClusterConfig", name=operation.id, resourcesVpcConfig=wanted)
            _applied(operation, answer, name=operation.id)


def _unordered(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _update_version(operation: Operation) -> None:
    answer = operation.run(
        Call(
            "UpdateClusterVersion", {"name": "{id}", "version": "{version}", "force": "{forceUpdateVersion}"}
        )
    )
    _applied(operation, answer, name=operation.id)


def _encrypt(operation: Operation) -> None:
    prop = operation.resource.by_name["encryptionConfig"]
    answer = operation.run(Call("AssociateEncryptionConfig", {"clusterName": "{id}"}), [prop])
    _applied(operation, answer, name=operation.id)


def _cluster_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    groups = search("logging.clusterLogging[?enabled].types[]", description) or []
    issuer = search("identity.oidc.issuer", description)
    access = from_api(description.get("accessConfig"))
    # Of the create call only: EKS may not tell it again.
    bootstrap = (operation.value("accessConfig") or {}).get("bootstrapClusterCreatorAdminPermissions")
    if access and bootstrap is not None:
        access["bootstrapClusterCreatorAdminPermissions"] = bootstrap
    return {
        "accessConfig": access,
        "enabledClusterLogTypes": sorted(groups),
        "clusterId": None,
        "identities": [{"oidcs": [{"issuer": issuer}]}] if issuer else [],
        "certificateAuthority": {"data": search("certificateAuthority.data", description)},
    }


CLUSTER = Resource(
    "aws:eks/cluster:Cluster",
    service="eks",
    id="{name}",
    inputs=[
        Property("name", replaces=True),
        Property("roleArn", replaces=True),
        Property("vpcConfig", api="resourcesVpcConfig"),
        Property("version", computed=True),
        Property("forceUpdateVersion", default=False, local=True),
        Property("accessConfig", computed=True),
        Property("bootstrapSelfManagedAddons", default=True, replaces=True, unread=True),
        Property("deletionProtection", default=False),
        Property("enabledClusterLogTypes", default=[]),
        Property("encryptionConfig", single=True),
        Property("kubernetesNetworkConfig", computed=True, replaces=True),
        Property("upgradePolicy", computed=True),
        Property("zonalShiftConfig", computed=True),
    ],
    outputs=[
        out("arn"),
        out("certificateAuthority"),
        out("clusterId"),
        out("createdAt"),
        out("endpoint"),
        out("identities"),
        out("platformVersion"),
        out("status"),
    ],
    create=Call("CreateCluster", more=_logging),
    read=Call("DescribeCluster", {"name": "{id}"}, result="cluster"),
    delete=Call("DeleteCluster", {"name": "{id}"}),
    steps=[
        _cluster_update("accessConfig"),
        Step(["vpcConfig"], _update_vpc, on_create=False),
        _cluster_update("enabledClusterLogTypes"),
        _cluster_update("deletionProtection"),
        _cluster_update("upgradePolicy"),
        _cluster_update("zonalShiftConfig"),
        Step(["encryptionConfig"], _encrypt, on_create=False),
        Step(["version"], _update_version, on_create=False),
        Step(["forceUpdateVersion"], lambda operation: None),
    ],
    extend=_cluster_properties,
    missing=["ResourceNotFoundException"],
    status=_status(30),
    tags=_TAGS,
    autoname=Autoname(longest=100),
    busy=_BUSY,
    eventual=_ROLE_NOT_YET,
)


# Node groups


_GROUP = {"clusterName": "{clusterName}", "nodegroupName": "{nodeGroupName}"}
_UPDATE_CONFIG = Call("UpdateNodegroupConfig", _GROUP)


def _update_group(operation: Operation) -> None:
    """Sizes, labels, taints and policies: one UpdateNodegroupConfig for all of them."""
    parameters: dict[str, Any] = {}
    for name in ("scalingConfig", "updateConfig", "nodeRepairConfig"):
        if name in operation.changed and operation.inputs.get(name):
            parameters.update(operation.parameters(_UPDATE_CONFIG, [operation.resource.by_name[name]]))
    if "labels" in operation.changed:
        before, after = operation.state.get("labels") or {}, operation.inputs.get("labels") or {}
        added = {key: value for key, value in after.items() if before.get(key) != value}
        removed = sorted(set(before) - set(after))
        parameters["labels"] = {
            key: value for key, value in (("addOrUpdateLabels", added), ("removeLabels", removed)) if value
        }
    if "taints" in operation.changed:
        before_taints, after_taints = (
            operation.state.get("taints") or [],
            operation.inputs.get("taints") or [],
        )
        kept = {(taint["key"], taint["effect"]) for taint in after_taints}
        gone = [taint for taint in before_taints if (taint["key"], taint["effect"]) not in kept]
        parameters["taints"] = {
            key: value
            for key, value in (("addOrUpdateTaints", after_taints), ("removeTaints", gone))
            if value
        }
    answer = operation.call("UpdateNodegroupConfig", **{**operation.fill(_GROUP), **parameters})
    _group_applied(operation, answer)


def _group_applied(operation: Operation, answer: Mapping[str, Any]) -> None:
    names = operation.fill(_GROUP)
    _applied(operation, answer, name=names["clusterName"], nodegroupName=names["nodegroupName"])


def _update_group_version(operation: Operation) -> None:
    names = ("version", "releaseVersion", "launchTemplate")
    properties = [operation.resource.by_name[name] for name in names if name in operation.changed]
    call = Call("UpdateNodegroupVersion", {**_GROUP, "force": "{forceUpdateVersion}"})
    answer = operation.run(call, properties)
    _group_applied(operation, answer)


def _template_rules(given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    template = given.get("launchTemplate")
    if isinstance(template, Mapping) and template.get("id") and template.get("name"):
        yield "launchTemplate", "takes an id or a name, not both"


def _group_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    groups = search("resources.autoScalingGroups", description) or []
    remote = search("resources.remoteAccessSecurityGroup", description)
    return {"resources": [{"autoscalingGroups": groups, "remoteAccessSecurityGroupId": remote or ""}]}


NODE_GROUP = Resource(
    "aws:eks/nodeGroup:NodeGroup",
    service="eks",
    id="{clusterName}:{nodeGroupName}",
    inputs=[
        Property("clusterName", replaces=True),
        Property("nodeGroupName", api="nodegroupName", replaces=True),
        Property("nodeGroupNamePrefix", replaces=True, local=True),
        Property("nodeRoleArn", api="nodeRole", replaces=True),
        Property("subnetIds", api="subnets", replaces=True),
        *inputs("amiType", "capacityType", "diskSize", replaces=True, computed=True),
        Property("instanceTypes", replaces=True, computed=True, ordered=True),
        Property("remoteAccess", replaces=True),
        Property("scalingConfig"),
        *inputs("updateConfig", "nodeRepairConfig", computed=True),
        Property("labels", default={}),
        Property("taints", default=[]),
        Property("launchTemplate"),
        *inputs("version", "releaseVersion", computed=True),
        Property("forceUpdateVersion", default=False, local=True),
    ],
    outputs=[out("arn", "nodegroupArn"), out("resources"), out("status")],
    create=Call("CreateNodegroup"),
    read=Call("DescribeNodegroup", _GROUP, result="nodegroup"),
    delete=Call("DeleteNodegroup", _GROUP),
    steps=[
        # As terraform: the version first, so that new nodes of a larger group are already the new ones.
        Step(["version", "releaseVersion", "launchTemplate"], _update_group_version, on_create=False),
        Step(
            ["scalingConfig", "updateConfig", "nodeRepairConfig", "labels", "taints"],
            _update_group,
            on_create=False,
        ),
        Step(["forceUpdateVersion"], lambda operation: None),
    ],
    extend=_group_properties,
    check=_template_rules,
    missing=["ResourceNotFoundException"],
    status=_status(60),
    tags=_TAGS,
    autoname=Autoname("nodeGroupName", prefix="nodeGroupNamePrefix", longest=63),
    busy=_BUSY,
    eventual=_ROLE_NOT_YET,
)


# Add-ons

_ADDON = {"clusterName": "{clusterName}", "addonName": "{addonName}"}


def _update_addon(operation: Operation) -> None:
    names = ("addonVersion", "serviceAccountRoleArn", "configurationValues", "podIdentityAssociations")
    # Add-on updates replace the whole configuration, so the unchanged parts go along.
    properties = [operation.resource.by_name[name] for name in names]
    conflicts = operation.inputs.get("resolveConflictsOnUpdate")
    call = Call("UpdateAddon", {**_ADDON, **({"resolveConflicts": conflicts} if conflicts else {})})
    answer = operation.run(call, properties)
    _applied(operation, answer, name=operation.value("clusterName"), addonName=operation.value("addonName"))


def _create_conflicts(operation: Operation) -> Mapping[str, Any]:
    conflicts = operation.inputs.get("resolveConflictsOnCreate")
    return {"resolveConflicts": conflicts} if conflicts else {}


def _delete_addon(operation: Operation) -> None:
    preserve = bool(operation.state.get("preserve"))
    operation.run(Call("DeleteAddon", {**_ADDON, **({"preserve": True} if preserve else {})}))


ADDON = Resource(
    "aws:eks/addon:Addon",
    service="eks",
    id="{clusterName}:{addonName}",
    inputs=[
        *inputs("clusterName", "addonName", replaces=True),
        Property("addonVersion", computed=True),
        Property("configurationValues", json=True, computed=True),
        Property("serviceAccountRoleArn"),
        Property("podIdentityAssociations", unread=True),
        Property("resolveConflictsOnCreate", local=True),
        Property("resolveConflictsOnUpdate", local=True),
        Property("preserve", default=False, local=True),
    ],
    outputs=[out("arn", "addonArn"), out("createdAt"), out("modifiedAt", volatile=True)],
    create=Call("CreateAddon", more=_create_conflicts),
    read=Call("DescribeAddon", _ADDON, result="addon"),
    delete=_delete_addon,
    steps=[
        Step(
            ["addonVersion", "configurationValues", "serviceAccountRoleArn", "podIdentityAssociations"],
            _update_addon,
            on_create=False,
        ),
        Step(["preserve", "resolveConflictsOnCreate", "resolveConflictsOnUpdate"], lambda operation: None),
    ],
    missing=["ResourceNotFoundException"],
    status=_status(20),
    tags=_TAGS,
    busy=_BUSY,
    eventual=_ROLE_NOT_YET,
)


# Access

_ENTRY = {"clusterName": "{clusterName}", "principalArn": "{principalArn}"}

ACCESS_ENTRY = Resource(
    "aws:eks/accessEntry:AccessEntry",
    service="eks",
    id="{clusterName}:{principalArn}",
    inputs=[
        *inputs("clusterName", "principalArn", replaces=True),
        Property("type", replaces=True, default="STANDARD"),
        Property("kubernetesGroups", computed=True),
        Property("userName", api="username", computed=True),
    ],
    outputs=[out("accessEntryArn"), out("createdAt"), out("modifiedAt", volatile=True)],
    create=Call("CreateAccessEntry"),
    read=Call("DescribeAccessEntry", _ENTRY, result="accessEntry"),
    delete=Call("DeleteAccessEntry", _ENTRY),
    steps=[Step(["kubernetesGroups", "userName"], Call("UpdateAccessEntry", _ENTRY), on_create=False)],
    missing=["ResourceNotFoundException"],
    tags=replace(_TAGS, target={"resourceArn": "{accessEntryArn}"}),
    busy=_BUSY,
    eventual=["The specified principalArn is invalid"],
)


def _read_association(operation: Operation) -> Mapping[str, Any] | None:
    try:
        answer = operation.run(Call("ListAssociatedAccessPolicies", _ENTRY))
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return None
        raise
    policy = operation.value("policyArn")
    found = next((each for each in answer["associatedAccessPolicies"] if each["policyArn"] == policy), None)
    return {**found, **operation.fill(_ENTRY)} if found else None


ACCESS_POLICY_ASSOCIATION = Resource(
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
    service="eks",
    id="{clusterName}#{principalArn}#{policyArn}",
    inputs=[
        *inputs("clusterName", "principalArn", "policyArn", replaces=True),
        Property("accessScope", replaces=True),
    ],
    outputs=[out("associatedAt"), out("modifiedAt")],
    create=Call("AssociateAccessPolicy"),
    read=_read_association,
    delete=Call("DisassociateAccessPolicy", {**_ENTRY, "policyArn": "{policyArn}"}),
    missing=["ResourceNotFoundException"],
    busy=_BUSY,
    # The access entry may not be visible yet.
    eventual=["The specified principalArn could not be found", "No AccessEntry found"],
    delete_before_replace=True,
)


def _read_identity(operation: Operation) -> Mapping[str, Any] | None:
    cluster = operation.value("clusterName")
    association = operation.id.rpartition(",")[2]
    if "," in operation.id:  # an import gives "cluster,association"
        cluster, operation.id = operation.id.partition(",")[0], association
    answer = operation.call("DescribePodIdentityAssociation", clusterName=cluster, associationId=association)
    found: Mapping[str, Any] = answer["association"]
    return found


_IDENTITY = {"clusterName": "{clusterName}", "associationId": "{id}"}

POD_IDENTITY_ASSOCIATION = Resource(
    "aws:eks/podIdentityAssociation:PodIdentityAssociation",
    service="eks",
    id="association.associationId",
    inputs=[
        *inputs("clusterName", "namespace", "serviceAccount", replaces=True),
        *inputs("roleArn", "targetRoleArn"),
        Property("disableSessionTags", default=False),
    ],
    outputs=[out("associationArn"), out("associationId"), out("externalId")],
    create=Call("CreatePodIdentityAssociation"),
    read=_read_identity,
    delete=Call("DeletePodIdentityAssociation", _IDENTITY),
    steps=[
        Step(
            ["roleArn", "targetRoleArn", "disableSessionTags"],
            Call("UpdatePodIdentityAssociation", _IDENTITY),
            on_create=False,
        )
    ],
    missing=["ResourceNotFoundException", "NotFoundException"],
    tags=replace(_TAGS, target={"resourceArn": "{associationArn}"}),
    busy=_BUSY,
    eventual=_ROLE_NOT_YET,
)

RESOURCES = [CLUSTER, NODE_GROUP, ADDON, ACCESS_ENTRY, ACCESS_POLICY_ASSOCIATION, POD_IDENTITY_ASSOCIATION]
