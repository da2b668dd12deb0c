"""Fargate profiles: there are none, and tools that ask for them are told so."""

from __future__ import annotations

from typing import Any

from lab.aws.actions import Call, action
from lab.aws.eks.state import find_cluster


@action("eks", "ListFargateProfiles")
def list_fargate_profiles(call: Call) -> dict[str, Any]:
    find_cluster(call)
    return {"fargateProfileNames": []}


@action("eks", "ListIdentityProviderConfigs")
def list_identity_provider_configs(call: Call) -> dict[str, Any]:
    find_cluster(call)
    return {"identityProviderConfigs": []}
