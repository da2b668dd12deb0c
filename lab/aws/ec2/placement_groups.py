"""Placement groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lab.aws.actions import ApiError, Call, action
from lab.aws.ec2.tags import backend, new_id, selected, tag_new, tags_of

STRATEGIES = ("cluster", "spread", "partition")


@dataclass
class PlacementGroup:
    name: str
    id: str
    arn: str
    strategy: str
    partitions: int | None = None
    spread_level: str | None = None


@dataclass
class PlacementGroups:
    """By name, which is unique in a region."""

    groups: dict[str, PlacementGroup] = field(default_factory=dict)

    def find(self, name: str | None, group_id: str | None = None) -> PlacementGroup:
        for group in self.groups.values():
            if group.name == name or (group_id and group.id == group_id):
                return group
        raise ApiError(
            "InvalidPlacementGroup.Unknown", f"The Placement Group '{name or group_id}' is unknown."
        )


def _state(call: Call) -> PlacementGroups:
    return call.world.state(PlacementGroups, call.region)


def _described(call: Call, group: PlacementGroup) -> dict[str, Any]:
    return {
        "GroupName": group.name,
        "GroupId": group.id,
        "GroupArn": group.arn,
        "State": "available",
        "Strategy": group.strategy,
        "PartitionCount": group.partitions,
        "SpreadLevel": group.spread_level,
        "Tags": tags_of(call, group.id),
    }


@action("ec2", "CreatePlacementGroup")
def create_placement_group(call: Call) -> dict[str, Any]:
    name, strategy = call["GroupName"], call.get("Strategy", "cluster")
    if name in _state(call).groups:
        raise ApiError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
    if strategy not in STRATEGIES:
        raise ApiError("InvalidParameterValue", f"Value ({strategy}) for parameter strategy is invalid.")
    group = PlacementGroup(
        name=name,
        id=new_id("pg"),
        arn=call.arn("ec2", f"placement-group/{name}"),
        strategy=strategy,
        partitions=call.get("PartitionCount", 2) if strategy == "partition" else None,
        spread_level=call.get("SpreadLevel", "rack") if strategy == "spread" else None,
    )
    _state(call).groups[name] = group
    tag_new(call, group.id, "placement-group")
    return {"PlacementGroup": _described(call, group)}


@action("ec2", "DescribePlacementGroups")
def describe_placement_groups(call: Call) -> dict[str, Any]:
    state = _state(call)
    groups = list(state.groups.values())
    if names := call.get("GroupNames"):
        groups = [state.find(name) for name in names]
    if ids := call.get("GroupIds"):
        groups = [state.find(None, group_id) for group_id in ids]
    described = [_described(call, group) for group in groups]
    return {
        "PlacementGroups": [
            group
            for group in described
            if selected(
                call,
                {
                    "group-name": group["GroupName"],
                    "group-arn": group["GroupArn"],
                    "state": group["State"],
                    "strategy": group["Strategy"],
                },
                group["Tags"],
            )
        ]
    }


@action("ec2", "DeletePlacementGroup")
def delete_placement_group(call: Call) -> None:
    group = _state(call).find(call["GroupName"], call["GroupName"])
    if any(instance.placement.group_name == group.name for instance in backend(call).all_running_instances()):
        raise ApiError(
            "InvalidPlacementGroup.InUse",
            f"The placement group '{group.name}' is in use and may not be deleted.",
        )
    del _state(call).groups[group.name]
    backend(call).tags.pop(group.id, None)
