"""Updates of clusters, node groups and add-ons."""

from __future__ import annotations

from typing import Any

from lab.aws.actions import ApiError, Call, action
from lab.aws.eks.state import Update, find_addon, find_cluster, find_nodegroup


def _updates(call: Call) -> dict[str, Update]:
    cluster = find_cluster(call)
    if call.get("nodegroupName"):
        return find_nodegroup(call, cluster).updates
    if call.get("addonName"):
        return find_addon(call, cluster).updates
    return cluster.updates


@action("eks", "DescribeUpdate")
def describe_update(call: Call) -> dict[str, Any]:
    update = _updates(call).get(call["updateId"])
    if update is None:
        raise ApiError("ResourceNotFoundException", f"No update found for ID: {call['updateId']}")
    return {"update": update.described()}


@action("eks", "ListUpdates")
def list_updates(call: Call) -> dict[str, Any]:
    return {"updateIds": list(_updates(call))}
