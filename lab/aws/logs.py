"""CloudWatch Logs: encryption of a log group after its creation, its class, and the retentions that exist."""

from __future__ import annotations

from typing import Any

from moto.logs.models import LogGroup, logs_backends

from lab.aws.actions import ApiError, Call, action, after, before

RETENTIONS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827),
    *(2192, 2557, 2922, 3288, 3653),
)
"""Days (CloudWatch Logs API reference, PutRetentionPolicy)."""


def _group(call: Call) -> LogGroup:
    groups = logs_backends[call.account][call.region].groups
    name = call["logGroupName"]
    if name not in groups:
        raise ApiError("ResourceNotFoundException", "The specified log group does not exist.")
    return groups[name]


@action("logs", "AssociateKmsKey")
def associate_kms_key(call: Call) -> None:
    _group(call).kms_key_id = call["kmsKeyId"]


@action("logs", "DisassociateKmsKey")
def disassociate_kms_key(call: Call) -> None:
    _group(call).kms_key_id = None


@before("logs", "PutRetentionPolicy")
def check_retention(call: Call) -> None:
    if call["retentionInDays"] not in RETENTIONS:
        raise ApiError("InvalidParameterException", f"retentionInDays is one of {RETENTIONS}.")


_moto_description = LogGroup.to_describe_dict


def _description(self: LogGroup) -> dict[str, Any]:
    return {**_moto_description(self), "logGroupClass": getattr(self, "log_group_class", "STANDARD")}


LogGroup.to_describe_dict = _description


@after("logs", "CreateLogGroup")
def keep_class(call: Call, _: Any) -> None:
    _group(call).log_group_class = call.get("logGroupClass", "STANDARD")
