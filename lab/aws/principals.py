"""Whose access key is it: IAM users, and roles assumed through STS."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from moto.iam.models import iam_backends
from moto.sts.models import sts_backends


@dataclass(frozen=True)
class Principal:
    """Who holds an access key."""

    arn: str
    """Of the IAM user or role: what an access entry names."""
    caller_arn: str
    """What GetCallerIdentity says: for a role, its session's ARN."""
    user_id: str
    secret_key: str
    session_name: str = ""
    session_token: str = ""
    expires: datetime | None = None
    """Naive, in UTC."""


def find_principal(account: str, access_key: str) -> Principal | None:
    """None for a key that neither IAM nor STS gave out, or that is inactive."""
    role = sts_backends[account]["aws"].get_assumed_role_from_access_key(access_key)
    if role is not None:
        return Principal(
            arn=role.role_arn,
            caller_arn=role.arn,
            user_id=role.user_id,
            secret_key=role.secret_access_key,
            session_name=role.session_name,
            session_token=role.session_token,
            expires=role.expiration,
        )
    iam = iam_backends[account]["aws"]
    user = iam.get_user_from_access_key_id(access_key)
    key = iam.access_keys.get(access_key)
    if user is None or key is None or key.status != "Active":
        return None
    return Principal(user.arn, user.arn, user.id, key.secret_access_key)
