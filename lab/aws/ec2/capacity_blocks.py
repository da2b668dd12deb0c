"""Capacity Blocks: offerings for the coming days, and buying one."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from lab.aws.actions import ApiError, Call, action
from lab.aws.ec2.capacity import SCARCE
from lab.aws.ec2.capacity_reservations import described
from lab.aws.ec2.instance_types import instance_type, offered
from lab.aws.ec2.models import CapacityReservation, CapacityReservations
from lab.aws.ec2.tags import backend, new_id, tag_new

DAYS_AHEAD = 56
"""How far in advance AWS sells blocks (EC2 user guide, "Capacity Blocks for ML")."""
DURATIONS = (*range(24, 14 * 24 + 1, 24), *range(21 * 24, 182 * 24 + 1, 7 * 24))
"""Hours: 1 to 14 days by the day, then by the week up to 182 days."""
COUNTS = (1, 2, 4, 8, 16, 32, 64)
GPU_HOUR = {"p4d": 1.45, "p4de": 1.85, "p5": 3.93, "p5e": 4.97, "p5en": 5.2}
"""US dollars, roughly; the real price is in the real offering."""


def _start(day: int, now: datetime) -> datetime:
    """Blocks begin at 11:30 UTC."""
    first = now.replace(hour=11, minute=30, second=0, microsecond=0)
    return first + timedelta(days=day + (now >= first))


def _offerings(call: Call, type_name: str, count: int, hours: int) -> list[dict[str, Any]]:
    facts, now = instance_type(type_name), datetime.now(UTC)
    earliest, latest = (
        call.get("StartDateRange", now),
        call.get("EndDateRange", now + timedelta(days=DAYS_AHEAD)),
    )
    price = GPU_HOUR.get(type_name.partition(".")[0], 5.0) * facts.gpus * count * hours
    found = []
    for zone in backend(call).describe_availability_zones():
        if not offered(call.region, zone.zone_id, type_name):
            continue
        for day in range(DAYS_AHEAD):
            start = _start(day, now)
            if not _aware(earliest) <= start <= _aware(latest):
                continue
            terms = f"{type_name} {count} {hours} {zone.name} {start.isoformat()}"
            found.append(
                {
                    "CapacityBlockOfferingId": f"cb-0{hashlib.sha256(terms.encode()).hexdigest()[:16]}",
                    "InstanceType": type_name,
                    "AvailabilityZone": zone.name,
                    "InstanceCount": count,
                    "StartDate": start,
                    "EndDate": start + timedelta(hours=hours),
                    "CapacityBlockDurationHours": hours,
                    "CapacityBlockDurationMinutes": hours * 60,
                    "UpfrontFee": f"{price:.2f}",
                    "CurrencyCode": "USD",
                    "Tenancy": "default",
                }
            )
    return found


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@action("ec2", "DescribeCapacityBlockOfferings")
def describe_capacity_block_offerings(call: Call) -> dict[str, Any]:
    type_name, count, hours = call["InstanceType"], call["InstanceCount"], call["CapacityDurationHours"]
    if not SCARCE.match(type_name):
        raise ApiError("InvalidParameterValue", f"There are no Capacity Blocks of {type_name}.")
    if hours not in DURATIONS or count not in COUNTS:
        raise ApiError(
            "InvalidParameterValue",
            f"A Capacity Block has {', '.join(map(str, COUNTS))} instances, for 1 to 14 days or for whole weeks up "
            f"to 182 days; not {count} for {hours} hours.",
        )
    offerings = _offerings(call, type_name, count, hours)
    terms = call.world.state(Offered, call.region)
    terms.update({one["CapacityBlockOfferingId"]: one for one in offerings})
    return {"CapacityBlockOfferings": offerings[: call.get("MaxResults", len(offerings))]}


class Offered(dict[str, dict[str, Any]]):
    """The offerings described so far, by id: only those can be bought."""


@action("ec2", "PurchaseCapacityBlock")
def purchase_capacity_block(call: Call) -> dict[str, Any]:
    """`scheduled` until it starts; it can't be cancelled."""
    offering = call.world.state(Offered, call.region).pop(call["CapacityBlockOfferingId"], None)
    if offering is None:
        raise ApiError(
            "InvalidCapacityBlockOfferingId.NotFound", "The offering doesn't exist or is no longer available."
        )
    zones = {zone.name: zone.zone_id for zone in backend(call).describe_availability_zones()}
    reservation = CapacityReservation(
        id=(new := new_id("cr")),
        arn=call.arn("ec2", f"capacity-reservation/{new}"),
        instance_type=offering["InstanceType"],
        platform=call["InstancePlatform"],
        zone=offering["AvailabilityZone"],
        zone_id=zones[offering["AvailabilityZone"]],
        count=offering["InstanceCount"],
        match="targeted",
        created=datetime.now(UTC),
        start=offering["StartDate"],
        end=offering["EndDate"],
        kind="capacity-block",
    )
    call.world.state(CapacityReservations, call.region).reservations[reservation.id] = reservation
    tag_new(call, reservation.id, "capacity-reservation")
    return {"CapacityReservation": described(call, reservation)}
