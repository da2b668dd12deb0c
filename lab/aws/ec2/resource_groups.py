"""Resource groups of capacity reservations: members, and what a launch finds through the group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from moto.ec2.models import EC2Backend

from lab.aws.actions import ApiError, Call, action
from lab.aws.world import World


@dataclass
class Members:
    """ARNs by group name; moto keeps the groups themselves."""

    arns: dict[str, list[str]] = field(default_factory=dict)


def _members(call: Call) -> list[str]:
    group = str(call["Group"]).rpartition("/")[2]
    return call.world.state(Members, call.region).arns.setdefault(group, [])


@action("resource-groups", "GroupResources")
def group_resources(call: Call) -> dict[str, Any]:
    members = _members(call)
    members.extend(arn for arn in call["ResourceArns"] if arn not in members)
    return {"Succeeded": call["ResourceArns"], "Failed": [], "Pending": []}


@action("resource-groups", "UngroupResources")
def ungroup_resources(call: Call) -> dict[str, Any]:
    members = _members(call)
    members[:] = [arn for arn in members if arn not in call["ResourceArns"]]
    return {"Succeeded": call["ResourceArns"], "Failed": [], "Pending": []}


@action("resource-groups", "ListGroupResources")
def list_group_resources(call: Call) -> dict[str, Any]:
    kind = "AWS::EC2::CapacityReservation"
    found = [{"ResourceArn": arn, "ResourceType": kind} for arn in _members(call)]
    return {
        "Resources": [{"Identifier": one} for one in found],
        "ResourceIdentifiers": found,
    }


def reservations_of(world: World, ec2: EC2Backend, group_arn: str) -> list[str]:
    """Ids of the capacity reservations in the group. Raises if there is no such group."""
    groups = world.state(Members, ec2.region_name).arns
    name = group_arn.rpartition("/")[2]
    if name not in groups:
        raise ApiError(
            "InvalidParameterValue", f"The resource group {group_arn} has no capacity reservations."
        )
    return [arn.rpartition("/")[2] for arn in groups[name] if ":capacity-reservation/" in arn]
