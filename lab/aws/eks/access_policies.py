"""The access policies that EKS offers."""

from __future__ import annotations

from typing import Any

from lab.aws.actions import ApiError, Call, action

PREFIX = "arn:aws:eks::aws:cluster-access-policy/"
NAMES = (
    "AmazonEKSAdminPolicy",
    "AmazonEKSAdminViewPolicy",
    "AmazonEKSClusterAdminPolicy",
    "AmazonEKSEditPolicy",
    "AmazonEKSViewPolicy",
)


def name_of(arn: str) -> str:
    """Raises InvalidParameterException for a policy that doesn't exist."""
    name = arn.removeprefix(PREFIX)
    if name not in NAMES:
        raise ApiError(
            "InvalidParameterException",
            "The policyArn parameter format is not valid or the policy does not exist",
        )
    return name


@action("eks", "ListAccessPolicies")
def list_access_policies(call: Call) -> dict[str, Any]:
    return {"accessPolicies": [{"name": name, "arn": PREFIX + name} for name in NAMES]}
