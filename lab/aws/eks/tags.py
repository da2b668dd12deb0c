"""Tags of everything that EKS gives an ARN to."""

from __future__ import annotations

from typing import Any

from lab.aws.actions import ApiError, Call, action
from lab.aws.eks.state import Addon, Cluster, Entry, Nodegroup, PodIdentity, all_clusters


def _tags(call: Call) -> dict[str, str]:
    arn = call["resourceArn"]
    for cluster in all_clusters(call).values():
        holders: list[Cluster | Nodegroup | Addon | Entry | PodIdentity] = [
            cluster,
            *cluster.nodegroups.values(),
            *cluster.addons.values(),
            *cluster.entries.values(),
            *cluster.pod_identities.values(),
        ]
        for holder in holders:
            if holder.arn == arn:
                return holder.tags
    raise ApiError("NotFoundException", f"Resource was not found. ({arn})")


@action("eks", "TagResource")
def tag_resource(call: Call) -> None:
    _tags(call).update(call["tags"])


@action("eks", "UntagResource")
def untag_resource(call: Call) -> None:
    tags = _tags(call)
    for key in call["tagKeys"]:
        tags.pop(key, None)


@action("eks", "ListTagsForResource")
def list_tags_for_resource(call: Call) -> dict[str, Any]:
    return {"tags": _tags(call)}
