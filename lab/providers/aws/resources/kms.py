"""KMS: keys and aliases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.providers.aws.operation import Operation, search
from lab.providers.aws.table import Autoname, Call, Property, Resource, Status, Step, Tags, out


def _key_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    policy = operation.call("GetKeyPolicy", KeyId=operation.id, PolicyName="default")["Policy"]
    rotation = False
    if description.get("KeySpec", "SYMMETRIC_DEFAULT") == "SYMMETRIC_DEFAULT":
        rotation = operation.call("GetKeyRotationStatus", KeyId=operation.id)["KeyRotationEnabled"]
    return {"policy": policy, "enableKeyRotation": rotation}


def _rotate(operation: Operation) -> None:
    on = bool(operation.inputs.get("enableKeyRotation"))
    operation.call("EnableKeyRotation" if on else "DisableKeyRotation", KeyId=operation.id)


def _enable(operation: Operation) -> None:
    on = operation.value("isEnabled") is not False
    operation.call("EnableKey" if on else "DisableKey", KeyId=operation.id)


def _schedule_deletion(operation: Operation) -> None:
    days = operation.state.get("deletionWindowInDays") or 30
    operation.call("ScheduleKeyDeletion", KeyId=operation.id, PendingWindowInDays=int(days))


KEY = Resource(
    "aws:kms/key:Key",
    service="kms",
    id="KeyMetadata.KeyId",
    inputs=[
        Property("description", computed=True),
        Property("policy", json=True, computed=True),
        Property("keyUsage", replaces=True, default="ENCRYPT_DECRYPT"),
        Property("customerMasterKeySpec", api="KeySpec", replaces=True, default="SYMMETRIC_DEFAULT"),
        Property("multiRegion", replaces=True, computed=True),
        Property("bypassPolicyLockoutSafetyCheck", default=False, unread=True),
        Property("isEnabled", read="Enabled", default=True),
        Property("enableKeyRotation", default=False),
        Property("deletionWindowInDays", local=True),
    ],
    outputs=[out("arn"), out("keyId")],
    create=Call("CreateKey"),
    read=Call("DescribeKey", {"KeyId": "{id}"}, result="KeyMetadata"),
    delete=_schedule_deletion,
    steps=[
        Step(["description"], Call("UpdateKeyDescription", {"KeyId": "{id}"}), on_create=False),
        Step(["policy"], Call("PutKeyPolicy", {"KeyId": "{id}", "PolicyName": "default"}), on_create=False),
        Step(["isEnabled"], _enable),
        Step(["enableKeyRotation"], _rotate),
        Step(["deletionWindowInDays", "bypassPolicyLockoutSafetyCheck"], lambda operation: None),
    ],
    extend=_key_properties,
    missing=["NotFoundException"],
    status=Status(
        "KeyState",
        ready=frozenset({"Enabled", "Disabled"}),
        gone=frozenset({"PendingDeletion", "PendingReplicaDeletion"}),
        minutes=10,
    ),
    tags=Tags(
        add="TagResource",
        remove="UntagResource",
        target={"KeyId": "{id}"},
        key="TagKey",
        value="TagValue",
        fetch=Call("ListResourceTags", {"KeyId": "{id}"}, result="Tags"),
    ),
    eventual=["MalformedPolicyDocumentException"],
)


def _read_alias(operation: Operation) -> Mapping[str, Any] | None:
    for page in operation.client().get_paginator("list_aliases").paginate():
        found: Mapping[str, Any] | None = search(f"Aliases[?AliasName=='{operation.id}'] | [0]", page)
        if found:
            return found
    return None


def _alias_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    key = description.get("TargetKeyId", "")
    return {"targetKeyId": key, "targetKeyArn": operation.arn("kms", f"key/{key}")}


def _same_key(operation: Operation) -> None:
    operation.call("UpdateAlias", AliasName=operation.id, TargetKeyId=operation.inputs["targetKeyId"])


ALIAS = Resource(
    "aws:kms/alias:Alias",
    service="kms",
    id="{name}",
    inputs=[
        Property("name", api="AliasName", replaces=True),
        Property("namePrefix", replaces=True, local=True),
        Property("targetKeyId"),
    ],
    outputs=[out("arn", "AliasArn"), out("targetKeyArn")],
    create=Call("CreateAlias"),
    read=_read_alias,
    delete=Call("DeleteAlias", {"AliasName": "{id}"}),
    steps=[Step(["targetKeyId"], _same_key, on_create=False)],
    extend=_alias_properties,
    missing=["NotFoundException"],
    autoname=Autoname(prefix="namePrefix", leading="alias/"),
)

RESOURCES = [KEY, ALIAS]
