"""Checks that several calls of EKS share."""

from __future__ import annotations

import json
from urllib.parse import unquote

from moto.iam.exceptions import NotFoundException
from moto.iam.models import Role, iam_backends

from lab.aws.actions import Call, refuse


def find_role(account: str, arn: str) -> Role | None:
    try:
        return iam_backends[account]["aws"].get_role_by_arn(arn)
    except NotFoundException:
        return None


def check_role(call: Call, arn: str, service: str) -> None:
    """The role exists and trusts the service. Raises InvalidParameterException."""
    role = find_role(call.account, arn)
    if role is None:
        raise refuse(
            "InvalidParameterException",
            f"Role with arn: {arn}, could not be assumed because it does not exist",
        )
    policy = role.assume_role_policy_document
    document = policy if isinstance(policy, dict) else json.loads(unquote(policy))
    if service not in json.dumps(document):
        raise refuse(
            "InvalidParameterException",
            f"Role with arn: {arn}, could not be assumed because it does not trust {service}",
        )
