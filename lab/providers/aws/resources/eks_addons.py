"""EKS: add-ons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.providers.aws.operation import Operation
from lab.providers.aws.resources.eks_common import BUSY, ROLE_NOT_YET, TAGS, applied, status
from lab.providers.aws.table import Call, Property, Resource, Step, inputs, out

_ADDON = {"clusterName": "{clusterName}", "addonName": "{addonName}"}


def _update_addon(operation: Operation) -> None:
    names = ("addonVersion", "serviceAccountRoleArn", "configurationValues", "podIdentityAssociations")
    # Add-on updates replace the whole configuration, so the unchanged parts go along.
    properties = [operation.resource.by_name[name] for name in names]
    conflicts = operation.inputs.get("resolveConflictsOnUpdate")
    call = Call("UpdateAddon", {**_ADDON, **({"resolveConflicts": conflicts} if conflicts else {})})
    answer = operation.run(call, properties)
    applied(operation, answer, name=operation.value("clusterName"), addonName=operation.value("addonName"))


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
    # An add-on whose pods have no node to run on stays DEGRADED, and terraform waits, too.
    status=status(20),
    tags=TAGS,
    busy=BUSY,
    eventual=ROLE_NOT_YET,
)


RESOURCES = [ADDON]
