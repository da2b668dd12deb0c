"""Where a pool's instances come from: one explicit kind for each pool."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, model_validator

from cluster.settings.base import Section, ZoneId, form

ReservationId = Annotated[str, form(r"^cr-[0-9a-f]{8,17}$", "cr-0123456789abcdef0")]
GroupArn = Annotated[
    str,
    form(
        r"^arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:\d{12}:group/.+$",
        "arn:aws:resource-groups:us-east-1:123456789012:group/p5",
    ),
]
PlacementGroupArn = Annotated[
    str,
    form(
        r"^arn:aws[a-z-]*:ec2:[a-z0-9-]+:\d{12}:placement-group/.+$",
        "arn:aws:ec2:us-east-1:123456789012:placement-group/p5",
    ),
]


class OnDemand(Section):
    """Whatever EC2 has at the moment. For P instances that is often nothing."""

    kind: Literal["on-demand"]


class Spot(Section):
    """Spare capacity, taken back at two minutes' notice."""

    kind: Literal["spot"]


class NewReservation(Section):
    """A reservation that this stack makes and cancels. It is billed from the moment it exists."""

    nodes: Annotated[int, Field(ge=1)]


class Reservation(Section):
    """An On-Demand Capacity Reservation: made here, or made elsewhere and named by id or resource group.

    What a reservation made elsewhere holds (`zone`, `nodes`, its placement group) is repeated here, so
    that a contradiction shows before anything is created.
    """

    kind: Literal["odcr"]
    create: NewReservation | None = None
    id: ReservationId | None = None
    resource_group: GroupArn | None = None
    zone: ZoneId | None = None
    nodes: Annotated[int, Field(ge=1)] | None = None
    placement_group_arn: PlacementGroupArn | None = None

    @model_validator(mode="after")
    def _one_target(self) -> Reservation:
        targets = [self.create, self.id, self.resource_group]
        if sum(target is not None for target in targets) != 1:
            raise ValueError("an odcr needs exactly one of create, id and resourceGroup")
        known = [self.zone, self.nodes]
        if self.create is None and None in known:
            raise ValueError("an odcr made elsewhere needs its zone and nodes beside its id or resourceGroup")
        if self.create is not None and (known != [None, None] or self.placement_group_arn):
            raise ValueError(
                "an odcr that is created here has its nodes inside create, "
                "and takes its zone and placement group from the pool"
            )
        return self

    @property
    def size(self) -> int:
        """How many instances the reservation holds."""
        return self.create.nodes if self.create else self.nodes or 0


class CapacityBlock(Section):
    """A Capacity Block for ML: paid in advance, with a start and an end."""

    kind: Literal["capacity-block"]
    id: ReservationId
    zone: ZoneId
    nodes: Annotated[int, Field(ge=1)]
    starts: AwareDatetime
    ends: AwareDatetime

    @model_validator(mode="after")
    def _ends_after_it_starts(self) -> CapacityBlock:
        if self.ends <= self.starts:
            raise ValueError("a capacity block ends after it starts")
        return self

    def open_at(self, now: datetime) -> bool:
        return self.starts <= now < self.ends


Capacity = Annotated[OnDemand | Spot | Reservation | CapacityBlock, Field(discriminator="kind")]
