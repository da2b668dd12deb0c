"""Access entries and the access policies associated with them."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from typing import Any
from uuid import uuid4

from lab.aws.actions import ApiError, Call, action
from lab.aws.eks.access_policies import PREFIX, name_of
from lab.aws.eks.state import AssociatedPolicy, Cluster, Entry, active_cluster, now
from lab.aws.principals import find_principal
from lab.aws.world import World
from lab.nodes.api import AccessEntry

log = logging.getLogger(__name__)
NODE_TYPES = ("EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX")
NODE_USER = "system:node:{{EC2PrivateDNSName}}"
RESERVED_GROUPS = ("system:", "eks:", "aws:", "amazon:", "iam:")
RETRY = 2.0
"""Seconds between attempts to apply the entries of a cluster."""
_appliers: dict[str, threading.Lock] = defaultdict(threading.Lock)


def apply_access(world: World, cluster: Cluster) -> None:
    """Have the Runtime make the bindings that the entries stand for; call it without the world's lock.

    One at a time by cluster, each with the entries of its moment, so that the last word is the newest.
    """
    if world.runtime is None:
        return
    with _appliers[cluster.name]:
        with world.lock:
            entries = [
                AccessEntry(
                    principal_arn=entry.principal_arn,
                    username=entry.username,
                    groups=tuple(entry.groups),
                    policies=tuple(
                        (policy.arn.removeprefix(PREFIX), tuple(policy.namespaces))
                        for policy in entry.policies.values()
                    ),
                )
                for entry in cluster.entries.values()
            ]
        world.runtime.apply_access(cluster.name, entries)


def follow_access(world: World, cluster: Cluster) -> None:
    """Apply the entries before this request is answered; if that fails, go on trying, as EKS would."""

    def now_or_later() -> None:
        try:
            apply_access(world, cluster)
        except Exception:
            log.exception("access entries of %s", cluster.name)
            world.work(f"access-{cluster.name}", again)

    def again() -> None:
        while cluster.status in ("ACTIVE", "UPDATING") and not world.closing.wait(RETRY):
            try:
                apply_access(world, cluster)
            except Exception as error:
                log.warning("access entries of %s: %s", cluster.name, error)
            else:
                break

    world.before_reply(now_or_later)


def default_username(account: str, principal_arn: str) -> str:
    """A user is called by its ARN, a role by its session's."""
    if ":role/" in principal_arn:
        role = principal_arn.rpartition("/")[2]
        return f"arn:aws:sts::{account}:assumed-role/{role}/{{{{SessionName}}}}"
    return principal_arn


def new_entry(cluster: Cluster, principal_arn: str, kind: str = "STANDARD") -> Entry:
    """An entry with EKS's defaults; a node's has the user and groups that kubelets need."""
    sort, _, name = principal_arn.rpartition(":")[2].partition("/")
    entry = Entry(
        principal_arn=principal_arn,
        arn=f"arn:aws:eks:{cluster.region}:{cluster.account}:access-entry/{cluster.name}/{sort}/{cluster.account}/"
        f"{name.rpartition('/')[2]}/{uuid4()}",
        username=NODE_USER if kind in NODE_TYPES else default_username(cluster.account, principal_arn),
        groups=["system:nodes"] if kind in NODE_TYPES else [],
        type=kind,
        tags={},
    )
    cluster.entries[principal_arn] = entry
    return entry


def admit_creator(call: Call, cluster: Cluster) -> None:
    """The creator administers the cluster unless the call says otherwise."""
    if not cluster.access["bootstrapClusterCreatorAdminPermissions"]:
        return
    if principal := find_principal(call.account, call.access_key):
        policy = f"{PREFIX}AmazonEKSClusterAdminPolicy"
        new_entry(cluster, principal.arn).policies[policy] = AssociatedPolicy(policy, "cluster", [])


def _with_entries(call: Call) -> Cluster:
    cluster = active_cluster(call)
    if cluster.access["authenticationMode"] == "CONFIG_MAP":
        raise ApiError(
            "InvalidRequestException",
            "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this "
            "operation.",
        )
    return cluster


def _find(call: Call) -> tuple[Cluster, Entry]:
    cluster, principal = _with_entries(call), call["principalArn"]
    if principal not in cluster.entries:
        raise ApiError(
            "ResourceNotFoundException", f"The specified principalArn could not be found: {principal}"
        )
    return cluster, cluster.entries[principal]


def _described(cluster: Cluster, entry: Entry) -> dict[str, Any]:
    return {
        "clusterName": cluster.name,
        "principalArn": entry.principal_arn,
        "kubernetesGroups": entry.groups,
        "accessEntryArn": entry.arn,
        "createdAt": entry.created,
        "modifiedAt": entry.modified,
        "tags": entry.tags,
        "username": entry.username,
        "type": entry.type,
    }


def _check_groups(groups: list[str]) -> list[str]:
    for group in groups:
        if group.startswith(RESERVED_GROUPS):
            raise ApiError(
                "InvalidParameterException",
                f"The kubernetes group name {group} is invalid, it cannot start with {', '.join(RESERVED_GROUPS)}",
            )
    return list(groups)


@action("eks", "CreateAccessEntry")
def create_access_entry(call: Call) -> dict[str, Any]:
    cluster, principal = _with_entries(call), call["principalArn"]
    if principal in cluster.entries:
        raise ApiError(
            "ResourceInUseException", "The specified access entry resource is already in use on this cluster."
        )
    if ":assumed-role/" in principal or (":role/" not in principal and ":user/" not in principal):
        raise ApiError(
            "InvalidParameterException", "The specified principalArn is invalid: invalid principal."
        )
    kind = call.get("type", "STANDARD")
    if kind in NODE_TYPES and (call.get("kubernetesGroups") or call.get("username")):
        raise ApiError(
            "InvalidParameterException",
            f"An access entry of type {kind} takes neither a username nor groups.",
        )
    groups = _check_groups(call.get("kubernetesGroups", []))
    entry = new_entry(cluster, principal, kind)
    entry.tags = dict(call.get("tags", {}))
    if kind == "STANDARD":
        entry.groups, entry.username = groups, call.get("username", entry.username)
    follow_access(call.world, cluster)
    return {"accessEntry": _described(cluster, entry)}


@action("eks", "DescribeAccessEntry")
def describe_access_entry(call: Call) -> dict[str, Any]:
    return {"accessEntry": _described(*_find(call))}


@action("eks", "ListAccessEntries")
def list_access_entries(call: Call) -> dict[str, Any]:
    policy = call.get("associatedPolicyArn")
    entries = _with_entries(call).entries.values()
    return {"accessEntries": [one.principal_arn for one in entries if not policy or policy in one.policies]}


@action("eks", "UpdateAccessEntry")
def update_access_entry(call: Call) -> dict[str, Any]:
    cluster, entry = _find(call)
    if entry.type != "STANDARD":
        raise ApiError("InvalidRequestException", f"An access entry of type {entry.type} can't be updated.")
    if call.get("kubernetesGroups") is not None:
        entry.groups = _check_groups(call["kubernetesGroups"])
    entry.username = call.get("username", entry.username)
    entry.modified = now()
    follow_access(call.world, cluster)
    return {"accessEntry": _described(cluster, entry)}


@action("eks", "DeleteAccessEntry")
def delete_access_entry(call: Call) -> None:
    cluster, entry = _find(call)
    del cluster.entries[entry.principal_arn]
    follow_access(call.world, cluster)


def _described_policy(policy: AssociatedPolicy) -> dict[str, Any]:
    return {
        "policyArn": policy.arn,
        "accessScope": {"type": policy.scope, "namespaces": policy.namespaces},
        "associatedAt": policy.associated,
        "modifiedAt": policy.modified,
    }


@action("eks", "AssociateAccessPolicy")
def associate_access_policy(call: Call) -> dict[str, Any]:
    """Associating it again changes the scope."""
    cluster, entry = _find(call)
    name_of(call["policyArn"])
    if entry.type != "STANDARD":
        raise ApiError(
            "InvalidRequestException", f"Policies can't be associated with entries of type {entry.type}."
        )
    scope = call["accessScope"]
    namespaces = list(scope.get("namespaces", []))
    if (scope["type"] == "namespace") != bool(namespaces):
        raise ApiError(
            "InvalidParameterException",
            "Namespaces go with an access scope of type namespace, and only with it.",
        )
    policy = AssociatedPolicy(call["policyArn"], scope["type"], namespaces)
    if earlier := entry.policies.get(policy.arn):
        policy.associated = earlier.associated
    entry.policies[policy.arn] = policy
    follow_access(call.world, cluster)
    return {
        "clusterName": cluster.name,
        "principalArn": entry.principal_arn,
        "associatedAccessPolicy": _described_policy(policy),
    }


@action("eks", "ListAssociatedAccessPolicies")
def list_associated_access_policies(call: Call) -> dict[str, Any]:
    cluster, entry = _find(call)
    return {
        "clusterName": cluster.name,
        "principalArn": entry.principal_arn,
        "associatedAccessPolicies": [_described_policy(policy) for policy in entry.policies.values()],
    }


@action("eks", "DisassociateAccessPolicy")
def disassociate_access_policy(call: Call) -> None:
    cluster, entry = _find(call)
    if entry.policies.pop(call["policyArn"], None) is None:
        raise ApiError("ResourceNotFoundException", f"The policy {call['policyArn']} is not associated.")
    follow_access(call.world, cluster)
