"""CloudWatch Logs: encryption of a log group after its creation."""

from __future__ import annotations

from moto.logs.models import LogGroup, logs_backends

from lab.aws.actions import ApiError, Call, action


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
