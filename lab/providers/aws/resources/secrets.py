"""Secrets Manager: secrets and their values. The values never leave their wrapper in Pulumi's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.providers.aws.operation import Operation
from lab.providers.aws.table import Autoname, Call, Property, Resource, Step, Tags, inputs, out


def _delete(operation: Operation) -> None:
    """A recovery window of 0 days deletes at once, so that the name is free again."""
    days = operation.state.get("recoveryWindowInDays")
    days = 30 if days is None else int(days)
    window = {"RecoveryWindowInDays": days} if days else {"ForceDeleteWithoutRecovery": True}
    operation.call("DeleteSecret", SecretId=operation.id, **window)


def _read(operation: Operation) -> Mapping[str, Any] | None:
    found = operation.call("DescribeSecret", SecretId=operation.id)
    return None if found.get("DeletedDate") else found


SECRET = Resource(
    "aws:secretsmanager/secret:Secret",
    service="secretsmanager",
    id="ARN",
    inputs=[
        Property("name", replaces=True),
        Property("namePrefix", replaces=True, local=True),
        Property("description", default=""),
        Property("kmsKeyId"),
        Property("recoveryWindowInDays", default=30, local=True),
        Property("forceOverwriteReplicaSecret", default=False, local=True),
    ],
    outputs=[out("arn", "ARN")],
    create=Call("CreateSecret"),
    read=_read,
    delete=_delete,
    steps=[
        Step(["description", "kmsKeyId"], Call("UpdateSecret", {"SecretId": "{id}"}), on_create=False),
        Step(["recoveryWindowInDays", "forceOverwriteReplicaSecret"], lambda operation: None),
    ],
    missing=["ResourceNotFoundException"],
    tags=Tags(add="TagResource", remove="UntagResource", target={"SecretId": "{id}"}),
    autoname=Autoname(prefix="namePrefix", longest=512),
)


def _put(operation: Operation) -> str:
    parameters = operation.parameters(Call("PutSecretValue"), SECRET_VERSION.inputs)
    operation.created = operation.call("PutSecretValue", **parameters)
    return f"{operation.inputs['secretId']}|{operation.created['VersionId']}"


def _read_version(operation: Operation) -> Mapping[str, Any]:
    secret, _, version = operation.id.partition("|")
    return {"SecretId": secret, **operation.call("GetSecretValue", SecretId=secret, VersionId=version)}


def _forget(operation: Operation) -> None:
    """A version goes with its secret; the current one can't be taken away from it."""


SECRET_VERSION = Resource(
    "aws:secretsmanager/secretVersion:SecretVersion",
    service="secretsmanager",
    id="",
    inputs=[
        Property("secretId", replaces=True),
        *inputs("secretString", "secretBinary", replaces=True, secret=True),
    ],
    outputs=[out("arn", "ARN"), out("secretArn", "ARN"), out("versionId"), out("versionStages")],
    create=_put,
    checked_by="PutSecretValue",
    read=_read_version,
    delete=_forget,
    missing=["ResourceNotFoundException", "InvalidRequestException"],
)

RESOURCES = [SECRET, SECRET_VERSION]
