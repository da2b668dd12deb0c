"""Add-ons: installed, changed and removed by the Runtime in worker threads."""

from __future__ import annotations

import logging
import time
from typing import Any
from uuid import uuid4

import yaml

from lab.aws.actions import ApiError, Call, action
from lab.aws.eks import addon_catalog
from lab.aws.eks.pod_identity import associate
from lab.aws.eks.state import Addon, Cluster, Issue, Update, active_cluster, find_addon, find_cluster, now
from lab.aws.world import World

log = logging.getLogger(__name__)
NEEDS_NODES = ("coredns", "metrics-server")
"""Deployments that stay DEGRADED while there is no node to run them."""
UNHEALTHY = "The add-on is unhealthy because it doesn't have the desired number of replicas."
PATIENCE = 60.0
"""Seconds until an add-on without a node is DEGRADED; AWS waits 20 minutes."""


def _values(call: Call, given: str | None) -> dict[str, Any]:
    """configurationValues is JSON or YAML, of an object."""
    try:
        values = yaml.safe_load(given or "{}")
    except yaml.YAMLError as error:
        raise ApiError(
            "InvalidParameterException", f"ConfigurationValue is not in valid format: {error}"
        ) from None
    if not isinstance(values, dict):
        raise ApiError(
            "InvalidParameterException", "ConfigurationValue is not in valid format: not an object"
        )
    return values


def described(cluster: Cluster, addon: Addon) -> dict[str, Any]:
    return {
        "addonName": addon.name,
        "clusterName": cluster.name,
        "status": addon.status,
        "addonVersion": addon.version,
        "health": {"issues": [issue.described() for issue in addon.issues]},
        "addonArn": addon.arn,
        "createdAt": addon.created,
        "modifiedAt": addon.modified,
        "serviceAccountRoleArn": addon.service_account_role_arn,
        "tags": addon.tags,
        "configurationValues": addon.configuration,
        "podIdentityAssociations": addon.pod_identities,
        "namespaceConfig": {"namespace": addon.namespace},
    }


@action("eks", "CreateAddon")
def create_addon(call: Call) -> dict[str, Any]:
    cluster, name = active_cluster(call), call["addonName"]
    addon_catalog.check(name)
    if name in cluster.addons:
        raise ApiError(
            "ResourceInUseException", "Addon already exists.", addonName=name, clusterName=cluster.name
        )
    version = call.get("addonVersion") or addon_catalog.default_version(name, cluster.version)
    _values(call, call.get("configurationValues"))
    addon = Addon(
        name=name,
        arn=call.arn("eks", f"addon/{cluster.name}/{name}/{uuid4()}"),
        version=addon_catalog.check_version(name, version),
        tags=dict(call.get("tags", {})),
        service_account_role_arn=call.get("serviceAccountRoleArn"),
        configuration=call.get("configurationValues"),
        namespace=call.get("namespaceConfig", {}).get("namespace", addon_catalog.namespace(name)),
    )
    _set_pod_identities(call, cluster, addon)
    cluster.addons[name] = addon
    call.world.work(f"addon-{name}", lambda: _install(call, cluster, addon, "CREATE_FAILED"))
    return {"addon": described(cluster, addon)}


def _set_pod_identities(call: Call, cluster: Cluster, addon: Addon) -> None:
    """The add-on's own associations become those that the call names, if it names any."""
    wanted = call.get("podIdentityAssociations")
    if wanted is None:
        return
    for identity, one in list(cluster.pod_identities.items()):
        if one.owner_arn == addon.arn:
            del cluster.pod_identities[identity]
    made = [
        associate(call, cluster, addon.namespace, one["serviceAccount"], one["roleArn"], addon.arn)
        for one in wanted
    ]
    addon.pod_identities = [one.arn for one in made]


def _install(call: Call, cluster: Cluster, addon: Addon, failed: str, update: Update | None = None) -> None:
    """Runs without the lock; ends with the add-on ACTIVE, DEGRADED or `failed`."""
    world, issues = call.world, []
    try:
        if world.runtime is not None:
            values = _values(call, addon.configuration)
            world.runtime.install_addon(cluster.name, addon.name, addon.version, values)
            if addon.name in NEEDS_NODES and not _wait_for_nodes(world, cluster):
                issues = [Issue("InsufficientNumberOfReplicas", UNHEALTHY, [addon.arn])]
        status = "DEGRADED" if issues else "ACTIVE"
    except Exception as error:
        log.exception("add-on %s of %s", addon.name, cluster.name)
        status, issues = failed, [Issue("ConfigurationConflict", str(error), [addon.arn])]
    with world.lock:
        addon.status, addon.issues, addon.modified = status, issues, now()
        if update:
            update.end(*issues)


def _wait_for_nodes(world: World, cluster: Cluster) -> bool:
    """Whether a node group is ACTIVE with at least one node before patience runs out."""
    deadline = time.monotonic() + PATIENCE * world.pace
    while True:
        with world.lock:
            if any(group.status == "ACTIVE" and group.instances for group in cluster.nodegroups.values()):
                return True
        if time.monotonic() > deadline or world.closing.wait(0.5):
            return False


@action("eks", "DescribeAddon")
def describe_addon(call: Call) -> dict[str, Any]:
    cluster = find_cluster(call)
    return {"addon": described(cluster, find_addon(call, cluster))}


@action("eks", "ListAddons")
def list_addons(call: Call) -> dict[str, Any]:
    return {"addons": sorted(find_cluster(call).addons)}


@action("eks", "UpdateAddon")
def update_addon(call: Call) -> dict[str, Any]:
    cluster = active_cluster(call)
    addon = find_addon(call, cluster)
    if addon.status not in ("ACTIVE", "DEGRADED", "CREATE_FAILED", "UPDATE_FAILED"):
        raise ApiError("ResourceInUseException", f"Addon is {addon.status}.", addonName=addon.name)
    if version := call.get("addonVersion"):
        addon.version = addon_catalog.check_version(addon.name, version)
    if call.get("configurationValues") is not None:
        _values(call, call["configurationValues"])
        addon.configuration = call["configurationValues"] or None
    addon.service_account_role_arn = call.get("serviceAccountRoleArn", addon.service_account_role_arn)
    _set_pod_identities(call, cluster, addon)
    addon.status = "UPDATING"
    update = Update("AddonUpdate", {"AddonVersion": addon.version})
    addon.updates[update.id] = update
    call.world.work(f"addon-{addon.name}", lambda: _install(call, cluster, addon, "UPDATE_FAILED", update))
    return {"update": update.described()}


@action("eks", "DeleteAddon")
def delete_addon(call: Call) -> dict[str, Any]:
    """With `preserve`, what it installed stays in the cluster."""
    cluster = find_cluster(call)
    addon, preserve = find_addon(call, cluster), call.get("preserve", False)
    addon.status = "DELETING"

    def delete() -> None:
        try:
            if call.world.runtime is not None and not preserve:
                call.world.runtime.remove_addon(cluster.name, addon.name)
        except Exception as error:
            log.exception("add-on %s of %s", addon.name, cluster.name)
            with call.world.lock:
                addon.status, addon.issues = (
                    "DELETE_FAILED",
                    [Issue("InternalFailure", str(error), [addon.arn])],
                )
            return
        with call.world.lock:
            cluster.addons.pop(addon.name, None)
            for identity, one in list(cluster.pod_identities.items()):
                if one.owner_arn == addon.arn:
                    del cluster.pod_identities[identity]

    call.world.work(f"addon-{addon.name}", delete)
    return {"addon": described(cluster, addon)}
