"""Checks that several calls of EKS share."""

from __future__ import annotations

from lab.aws.actions import ApiError, Call
from lab.aws.sts import find_role, trusts


def check_role(call: Call, arn: str, service: str) -> None:
    """The role exists and trusts the service. Raises InvalidParameterException."""
    role = find_role(call.account, arn)
    if role is None:
        raise ApiError(
            "InvalidParameterException",
            f"Role with arn: {arn}, could not be assumed because it does not exist",
        )
    if not trusts(role, "Service", service):
        raise ApiError(
            "InvalidParameterException",
            f"Role with arn: {arn}, could not be assumed because it does not trust {service}",
        )
