"""EC2, capacity: reservations and placement groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.providers.aws.operation import Operation
from lab.providers.aws.resources.ec2_common import ec2_tags
from lab.providers.aws.table import Autoname, Call, Property, Resource, Status, Step, inputs, out


def _end_rules(given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if given.get("endDateType") == "limited" and given.get("endDate") is None:
        yield "endDate", "has to be set when endDateType is 'limited'"
    if given.get("endDate") is not None and given.get("endDateType") == "unlimited":
        yield "endDateType", "can't be 'unlimited' when endDate is set"


def _modify(operation: Operation) -> None:
    """The three always go together: leaving out the end date would keep the old one."""
    limited = operation.inputs.get("endDate") is not None
    operation.call(
        "ModifyCapacityReservation",
        CapacityReservationId=operation.id,
        InstanceCount=int(operation.inputs["instanceCount"]),
        EndDateType="limited" if limited else "unlimited",
        **({"EndDate": operation.inputs["endDate"]} if limited else {}),
    )


CAPACITY_RESERVATION = Resource(
    "aws:ec2/capacityReservation:CapacityReservation",
    service="ec2",
    id="CapacityReservation.CapacityReservationId",
    inputs=[
        *inputs("availabilityZone", "instanceType", "instancePlatform", replaces=True),
        *inputs("outpostArn", "placementGroupArn", replaces=True),
        *inputs("ebsOptimized", "ephemeralStorage", replaces=True, default=False),
        Property("instanceMatchCriteria", replaces=True, default="open"),
        Property("tenancy", replaces=True, default="default"),
        Property("instanceCount", read="TotalInstanceCount"),
        Property("endDate"),
        Property("endDateType", default="unlimited"),
    ],
    outputs=[
        out("arn", "CapacityReservationArn"),
        out("ownerId"),
    ],
    create=Call("CreateCapacityReservation"),
    read=Call(
        "DescribeCapacityReservations",
        {"CapacityReservationIds": ["{id}"]},
        result="CapacityReservations[0]",
    ),
    delete=Call("CancelCapacityReservation", {"CapacityReservationId": "{id}"}),
    steps=[Step(["instanceCount", "endDate", "endDateType"], _modify, on_create=False)],
    check=_end_rules,
    missing=["InvalidCapacityReservationId.NotFound"],
    status=Status(
        "State",
        ready=frozenset({"active", "scheduled", "assessing"}),
        failed=frozenset({"failed", "unsupported", "payment-failed"}),
        gone=frozenset({"cancelled", "expired", "unavailable"}),
    ),
    tags=ec2_tags("capacity-reservation"),
)

PLACEMENT_GROUP = Resource(
    "aws:ec2/placementGroup:PlacementGroup",
    service="ec2",
    id="{name}",
    inputs=[
        Property("name", api="GroupName", replaces=True),
        Property("strategy", replaces=True),
        *inputs("partitionCount", "spreadLevel", replaces=True, computed=True),
    ],
    outputs=[out("arn", "GroupArn"), out("placementGroupId", "GroupId")],
    create=Call("CreatePlacementGroup"),
    read=Call("DescribePlacementGroups", {"GroupNames": ["{id}"]}, result="PlacementGroups[0]"),
    delete=Call("DeletePlacementGroup", {"GroupName": "{id}"}),
    missing=["InvalidPlacementGroup.Unknown"],
    status=Status("State", ready=frozenset({"available"}), gone=frozenset({"deleted"}), minutes=5),
    busy=["InvalidPlacementGroup.InUse", "DependencyViolation"],
    # Its tags are kept by id, which isn't the name that all other calls take.
    tags=ec2_tags("placement-group", target="{placementGroupId}"),
    autoname=Autoname(),
)

RESOURCES = [CAPACITY_RESERVATION, PLACEMENT_GROUP]
