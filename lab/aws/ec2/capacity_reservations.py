"""On-demand capacity reservations: create, describe, modify, cancel, and what is left of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from moto.ec2.models import EC2Backend

from lab.aws.actions import ApiError, Call, action
from lab.aws.ec2.instance_types import instance_type, offered
from lab.aws.ec2.models import CapacityReservation, CapacityReservations
from lab.aws.ec2.placement_groups import PlacementGroups
from lab.aws.ec2.quotas import check_quota
from lab.aws.ec2.tags import backend, new_id, selected, tag_new, tags_of

PLATFORMS = ("Linux/UNIX", "Red Hat Enterprise Linux", "SUSE Linux", "Windows")


def used(ec2: EC2Backend, reservation: CapacityReservation) -> int:
    """How many running instances sit in the reservation."""
    return sum(
        getattr(instance, "capacity_reservation_id", None) == reservation.id
        for instance in ec2.all_running_instances()
    )


def available(ec2: EC2Backend, reservation: CapacityReservation) -> int:
    return reservation.count - used(ec2, reservation) if reservation.state == "active" else 0


def described(call: Call, reservation: CapacityReservation) -> dict[str, Any]:
    return {
        "CapacityReservationId": reservation.id,
        "CapacityReservationArn": reservation.arn,
        "OwnerId": call.account,
        "InstanceType": reservation.instance_type,
        "InstancePlatform": reservation.platform,
        "AvailabilityZone": reservation.zone,
        "AvailabilityZoneId": reservation.zone_id,
        "Tenancy": reservation.tenancy,
        "TotalInstanceCount": reservation.count,
        "AvailableInstanceCount": max(0, available(backend(call), reservation)),
        "EbsOptimized": reservation.ebs_optimized,
        "EphemeralStorage": reservation.ephemeral_storage,
        "State": reservation.state,
        "StartDate": reservation.start or reservation.created,
        "EndDate": reservation.end,
        "EndDateType": "limited" if reservation.end else "unlimited",
        "InstanceMatchCriteria": reservation.match,
        "CreateDate": reservation.created,
        "PlacementGroupArn": reservation.placement_group_arn or None,
        "ReservationType": reservation.kind,
        "Tags": tags_of(call, reservation.id),
    }


def zone_of(call: Call) -> tuple[str, str]:
    """Name and id of the zone that the call names in either way."""
    name, zone_id = call.get("AvailabilityZone"), call.get("AvailabilityZoneId")
    for zone in backend(call).describe_availability_zones():
        if zone.name == name or zone.zone_id == zone_id:
            return zone.name, zone.zone_id
    raise ApiError("InvalidParameterValue", f"Invalid availability zone: [{name or zone_id}]")


@action("ec2", "CreateCapacityReservation")
def create_capacity_reservation(call: Call) -> dict[str, Any]:
    zone, zone_id = zone_of(call)
    facts, count = instance_type(call["InstanceType"]), call["InstanceCount"]
    if call["InstancePlatform"] not in PLATFORMS:
        raise ApiError("InvalidParameterValue", f"Invalid platform: {call['InstancePlatform']}")
    if count < 1:
        raise ApiError("InvalidParameterValue", "The instance count must be at least 1.")
    if not offered(call.region, zone_id, facts.name):
        raise ApiError(
            "Unsupported", f"Instance type {facts.name} is not supported in Availability Zone {zone}."
        )
    if (call.get("EndDateType", "unlimited") == "limited") != bool(call.get("EndDate")):
        raise ApiError(
            "InvalidParameterCombination", "EndDate goes with EndDateType limited, and only with it."
        )
    check_quota(call.world, backend(call), facts, count)
    reservation = CapacityReservation(
        id=(new := new_id("cr")),
        arn=call.arn("ec2", f"capacity-reservation/{new}"),
        instance_type=facts.name,
        platform=call["InstancePlatform"],
        zone=zone,
        zone_id=zone_id,
        count=count,
        match=call.get("InstanceMatchCriteria", "open"),
        created=datetime.now(UTC),
        placement_group_arn=_placement_group(call),
        end=_aware(call.get("EndDate")),
        tenancy=call.get("Tenancy", "default"),
        ebs_optimized=call.get("EbsOptimized", False),
        ephemeral_storage=call.get("EphemeralStorage", False),
    )
    call.world.state(CapacityReservations, call.region).reservations[reservation.id] = reservation
    tag_new(call, reservation.id, "capacity-reservation")
    return {"CapacityReservation": described(call, reservation)}


def _placement_group(call: Call) -> str:
    arn: str = call.get("PlacementGroupArn", "")
    if arn:
        group = call.world.state(PlacementGroups, call.region).find(arn.rpartition("/")[2])
        if group.strategy != "cluster":
            raise ApiError("InvalidParameterValue", f"{arn} is not a cluster placement group.")
    return arn


def _aware(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


@action("ec2", "DescribeCapacityReservations")
def describe_capacity_reservations(call: Call) -> dict[str, Any]:
    state = call.world.state(CapacityReservations, call.region)
    ids = call.get("CapacityReservationIds") or list(state.reservations)
    reservations = [described(call, state.find(one)) for one in ids]
    return {
        "CapacityReservations": [
            one
            for one in reservations
            if selected(
                call,
                {
                    "instance-type": one["InstanceType"],
                    "state": one["State"],
                    "availability-zone": one["AvailabilityZone"],
                    "instance-match-criteria": one["InstanceMatchCriteria"],
                    "instance-platform": one["InstancePlatform"],
                    "placement-group-arn": one["PlacementGroupArn"],
                },
                one["Tags"],
            )
        ]
    }


@action("ec2", "ModifyCapacityReservation")
def modify_capacity_reservation(call: Call) -> dict[str, Any]:
    reservation = call.world.state(CapacityReservations, call.region).find(call["CapacityReservationId"])
    if reservation.state != "active":
        raise ApiError("InvalidState", f"The capacity reservation is {reservation.state}.")
    if count := call.get("InstanceCount"):
        in_use = used(backend(call), reservation)
        if count < in_use:
            raise ApiError(
                "InvalidParameterValue", f"{in_use} instances run in the reservation; it can't go below."
            )
        check_quota(
            call.world, backend(call), instance_type(reservation.instance_type), count - reservation.count
        )
        reservation.count = count
    if call.get("EndDateType") == "unlimited":
        reservation.end = None
    if end := call.get("EndDate"):
        reservation.end = _aware(end)
    reservation.match = call.get("InstanceMatchCriteria", reservation.match)
    return {"Return": True}


@action("ec2", "CancelCapacityReservation")
def cancel_capacity_reservation(call: Call) -> dict[str, Any]:
    """Instances that run in it go on running, as on AWS, at the on-demand price."""
    reservation = call.world.state(CapacityReservations, call.region).find(call["CapacityReservationId"])
    if reservation.kind == "capacity-block":
        raise ApiError("InvalidParameterValue", "A Capacity Block can't be cancelled.")
    reservation.cancelled = True
    return {"Return": True}
