"""EKS: managed node groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.providers.aws.operation import Operation, search
from lab.providers.aws.resources.eks_common import BUSY, ROLE_NOT_YET, TAGS, applied, status
from lab.providers.aws.table import Autoname, Call, Property, Resource, Step, inputs, out

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
    applied(operation, answer, name=names["clusterName"], nodegroupName=names["nodegroupName"])


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
    # Degraded nodes can still be changed, and often a change is what they need.
    status=status(60, "DEGRADED"),
    tags=TAGS,
    autoname=Autoname("nodeGroupName", prefix="nodeGroupNamePrefix", longest=63),
    busy=BUSY,
    eventual=ROLE_NOT_YET,
)


RESOURCES = [NODE_GROUP]
