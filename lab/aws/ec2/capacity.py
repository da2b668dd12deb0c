"""Whether instances can be had: offerings, reservations, quotas, and how little is left of the big ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.ec2.models import EC2Backend
from moto.ec2.models.subnets import Subnet

from lab.aws.actions import ApiError
from lab.aws.ec2.capacity_reservations import available
from lab.aws.ec2.instance_types import InstanceType, offered
from lab.aws.ec2.models import CapacityReservation, CapacityReservations
from lab.aws.ec2.placement_groups import PlacementGroups
from lab.aws.ec2.quotas import check_quota
from lab.aws.ec2.resource_groups import reservations_of
from lab.aws.world import World

SCARCE = re.compile(r"^(p4d|p4de|p5|p5e|p5en|p6-b200|p6-b300)\.")
"""Types that nobody gets on demand or on the spot market without luck: only reserved ones are there."""


@dataclass
class FreeCapacity:
    """What `POST /_lab/capacity` granted outside reservations, by (zone, type)."""

    instances: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class LaunchRequest:
    """What a launch asks for."""

    type: InstanceType
    subnet: Subnet
    count: int
    market: str = ""
    """spot, capacity-block, or empty for on-demand."""
    preference: str = "open"
    """open, none or capacity-reservations-only."""
    reservation_id: str = ""
    reservation_group_arn: str = ""
    placement_group: str = ""

    @classmethod
    def of(cls, data: Mapping[str, Any], facts: InstanceType, subnet: Subnet, count: int) -> LaunchRequest:
        """Read it from the members that RunInstances and launch templates share."""
        specification = data.get("CapacityReservationSpecification") or {}
        target = specification.get("CapacityReservationTarget") or {}
        return cls(
            type=facts,
            subnet=subnet,
            count=count,
            market=(data.get("InstanceMarketOptions") or {}).get("MarketType", ""),
            preference=specification.get("CapacityReservationPreference", "open"),
            reservation_id=target.get("CapacityReservationId", ""),
            reservation_group_arn=target.get("CapacityReservationResourceGroupArn", ""),
            placement_group=(data.get("Placement") or {}).get("GroupName", ""),
        )


def check_capacity(world: World, ec2: EC2Backend, request: LaunchRequest) -> str:
    """The id of the reservation that the instances go into; empty for capacity outside reservations.

    Raises what EC2 raises: Unsupported, InsufficientInstanceCapacity, ReservationCapacityExceeded,
    VcpuLimitExceeded, InvalidParameterCombination, …
    """
    if not offered(ec2.region_name, request.subnet.availability_zone_id, request.type.name):
        raise ApiError(
            "Unsupported",
            f"Your requested instance type ({request.type.name}) is not supported in your requested Availability "
            f"Zone ({request.subnet.availability_zone}). Please retry your request by not specifying an "
            "Availability Zone or choosing one in which the type is offered.",
        )
    group = request.placement_group
    if group:
        world.state(PlacementGroups, ec2.region_name).find(group)
    if request.reservation_id or request.reservation_group_arn:
        return _targeted(world, ec2, request)
    if request.market == "capacity-block":
        raise ApiError(
            "InvalidParameterCombination",
            "The market type capacity-block needs a capacity reservation as target.",
        )
    if request.preference != "none" and not request.market:
        for one in _reservations(world, ec2).values():
            if one.match == "open" and one.kind == "default" and _fits(world, one, request, ec2):
                return one.id
        if request.preference == "capacity-reservations-only":
            raise _exceeded()
    _outside(world, ec2, request)
    return ""


def _reservations(world: World, ec2: EC2Backend) -> dict[str, CapacityReservation]:
    return world.state(CapacityReservations, ec2.region_name).reservations


def _targeted(world: World, ec2: EC2Backend, request: LaunchRequest) -> str:
    state = world.state(CapacityReservations, ec2.region_name)
    ids = (
        [request.reservation_id]
        if request.reservation_id
        else reservations_of(world, ec2, request.reservation_group_arn)
    )
    candidates = [state.find(one) for one in ids]
    if request.reservation_id:
        _check_market(candidates[0], request)
    for one in candidates:
        if _fits(world, one, request, ec2):
            return one.id
    if (
        request.reservation_group_arn
        and request.preference != "capacity-reservations-only"
        and not request.market
    ):
        _outside(world, ec2, request)  # a group as target falls back to on-demand, unlike a reservation
        return ""
    raise _exceeded()


def _check_market(reservation: CapacityReservation, request: LaunchRequest) -> None:
    block = reservation.kind == "capacity-block"
    if block != (request.market == "capacity-block"):
        raise ApiError(
            "InvalidParameterCombination",
            f"The reservation {reservation.id} is {'a Capacity Block' if block else 'no Capacity Block'}, but the "
            f"market type is {request.market or 'on-demand'}.",
        )


def _fits(world: World, reservation: CapacityReservation, request: LaunchRequest, ec2: EC2Backend) -> bool:
    """Type, zone and room agree; and in a placement group, the reservation was made in that group."""
    groups = world.state(PlacementGroups, ec2.region_name).groups
    wanted = groups[request.placement_group].arn if request.placement_group else ""
    return (
        reservation.state == "active"
        and reservation.instance_type == request.type.name
        and reservation.zone == request.subnet.availability_zone
        and wanted in ("", reservation.placement_group_arn)
        and available(ec2, reservation) >= request.count
    )


def _exceeded() -> ApiError:
    return ApiError(
        "ReservationCapacityExceeded",
        "The requested reservation does not have sufficient compatible and available capacity for this request.",
    )


def _outside(world: World, ec2: EC2Backend, request: LaunchRequest) -> None:
    """Room outside reservations, within the quota."""
    if request.market != "spot":
        check_quota(world, ec2, request.type, request.count)
    if not SCARCE.match(request.type.name):
        return
    zone = request.subnet.availability_zone
    running = sum(
        one.instance_type == request.type.name
        and one.availability_zone == zone
        and not getattr(one, "capacity_reservation_id", None)
        for one in ec2.all_running_instances()
    )
    free = world.state(FreeCapacity, ec2.region_name).instances.get((zone, request.type.name), 0) - running
    if request.count > free:
        what = "Spot " if request.market == "spot" else ""
        raise ApiError(
            "InsufficientInstanceCapacity",
            f"We currently do not have sufficient {what}{request.type.name} capacity in the Availability Zone you "
            f"requested ({zone}). Our system will be working on provisioning additional capacity.",
        )
