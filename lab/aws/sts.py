"""STS: a role is assumed only by those it trusts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from moto.iam.exceptions import NotFoundException
from moto.iam.models import Role, iam_backends

from lab.aws.actions import ApiError, Call, before
from lab.aws.principals import find_principal


def find_role(account: str, arn: str) -> Role | None:
    try:
        return iam_backends[account]["aws"].get_role_by_arn(arn)
    except NotFoundException:
        return None


def trust_policy(role: Role) -> Mapping[str, Any]:
    policy = role.assume_role_policy_document
    return policy if isinstance(policy, dict) else json.loads(unquote(policy))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def trusts(role: Role, kind: str, *names: str) -> bool:
    """Whether the trust policy allows any of the principals (kind: AWS or Service). Conditions aren't looked at."""
    for statement in _list(trust_policy(role).get("Statement", [])):
        principal = statement.get("Principal", {})
        allowed = ["*"] if principal == "*" else _list(principal.get(kind, []))
        if statement.get("Effect") == "Allow" and {"*", *names} & set(allowed):
            return True
    return False


@before("sts", "AssumeRole")
def trusted(call: Call) -> None:
    """moto lets anybody assume any role, even one that doesn't exist."""
    caller = find_principal(call.account, call.access_key)
    arn = caller.arn if caller else f"arn:aws:iam::{call.account}:root"
    session = caller.caller_arn if caller else arn
    role = find_role(call.account, call["RoleArn"])
    if role is None or not trusts(
        role, "AWS", arn, session, call.account, f"arn:aws:iam::{call.account}:root"
    ):
        raise ApiError(
            "AccessDenied",
            f"User: {session} is not authorized to perform: sts:AssumeRole on resource: {call['RoleArn']}",
        )
