"""Where a node group's instances come from: one explicit kind for each node group."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, model_validator

from cluster.settings.base import Form, Section, ZoneId, invalid

RECLAIM_MARGIN = timedelta(minutes=30)
"""EC2 begins to terminate a block's instances this long before its end (EC2 guide, "Capacity Blocks")."""

ReservationId = Annotated[
    str, Form(r"cr-[0-9a-f]{8,17}", "the id of a capacity reservation", "cr-0123456789abcdef0")
]
ResourceGroupArn = Annotated[
    str,
    Form(
        r"arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:\d{12}:group/.+",
        "the ARN of a resource group",
        "arn:aws:resource-groups:us-east-1:123456789012:group/p5",
    ),
]
PlacementGroupArn = Annotated[
    str,
    Form(
        r"arn:aws[a-z-]*:ec2:[a-z0-9-]+:\d{12}:placement-group/.+",
        "the ARN of a placement group",
        "arn:aws:ec2:us-east-1:123456789012:placement-group/p5",
    ),
]


_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def _time(value: Any) -> Any:
    """RFC 3339, to the minute or the second."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, str) and _RFC_3339.fullmatch(value):
        try:
            return datetime.fromisoformat(value)
        except ValueError:  # such as the 31st of February
            pass
    raise invalid(f"{value!r} is not a time with a time zone", 'Such as "2027-01-01T11:30:00Z", in quotes.')


Time = Annotated[AwareDatetime, BeforeValidator(_time), Field(examples=["2027-01-01T11:30:00Z"])]


class OnDemand(Section):
    """Whatever EC2 has at the moment. For P instances that is often nothing."""

    kind: Literal["on-demand"]


class Spot(Section):
    """Spare capacity, which EC2 reclaims at two minutes' notice."""

    kind: Literal["spot"]


class NewCapacityReservation(Section):
    """A reservation that this stack creates and cancels. It is billed from its creation."""

    nodes: Annotated[int, Field(ge=1, examples=[16])]


class CapacityReservation(Section):
    """An On-Demand Capacity Reservation: created here, or an existing one by id or resource group.

    For an existing reservation its `zone`, `nodes` and placement group are repeated here, so that
    contradictions are found before anything is created.
    """

    kind: Literal["odcr"]
    create: NewCapacityReservation | None = None
    id: ReservationId | None = None
    resource_group_arn: ResourceGroupArn | None = None
    zone: ZoneId | None = None
    nodes: Annotated[int, Field(ge=1, examples=[16])] | None = None
    placement_group_arn: PlacementGroupArn | None = None

    @model_validator(mode="after")
    def _one_target(self) -> CapacityReservation:
        targets = [self.create, self.id, self.resource_group_arn]
        if sum(target is not None for target in targets) != 1:
            raise invalid(
                "an odcr has exactly one of create, id and resourceGroupArn",
                "Such as {kind: odcr, create: {nodes: 16}}.",
            )
        known = [self.zone, self.nodes]
        if self.create is None and None in known:
            raise invalid(
                "an existing reservation is described by its zone and nodes",
                "Such as {kind: odcr, id: cr-0123456789abcdef0, zone: use1-az6, nodes: 16}.",
            )
        if self.create is not None and (known != [None, None] or self.placement_group_arn):
            raise invalid(
                "an odcr that is created here has no zone, nodes or placementGroupArn beside create",
                "Its zone and placement group are those of the node group: {kind: odcr, create: {nodes: 16}}.",
            )
        return self

    @property
    def size(self) -> int:
        """How many instances the reservation holds."""
        return self.create.nodes if self.create else self.nodes or 0

    @property
    def target(self) -> str | None:
        """The existing reservation or group that it names; None for one that is created here."""
        return self.id or self.resource_group_arn


class CapacityBlock(Section):
    """A Capacity Block for ML: paid in advance, with a start and an end."""

    kind: Literal["capacity-block"]
    id: ReservationId
    zone: ZoneId
    nodes: Annotated[int, Field(ge=1, examples=[16])]
    start_date: Time
    end_date: Time

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> CapacityBlock:
        if self.end_date <= self.start_date:
            raise invalid(
                "a capacity block ends after it starts",
                "Copy both dates from aws ec2 describe-capacity-reservations.",
                key="endDate",
            )
        return self

    @property
    def size(self) -> int:
        """How many instances the block holds."""
        return self.nodes

    @property
    def target(self) -> str:
        """The block's id."""
        return self.id

    @property
    def reclaimed_at(self) -> datetime:
        """When EC2 begins to terminate the instances."""
        return self.end_date - RECLAIM_MARGIN


Capacity = Annotated[OnDemand | Spot | CapacityReservation | CapacityBlock, Field(discriminator="kind")]
