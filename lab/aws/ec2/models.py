"""What the emulator keeps of capacity reservations, for all who ask: launches, quotas, calls and the leak check."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from lab.aws.actions import ApiError


@dataclass
class CapacityReservation:
    id: str
    arn: str
    instance_type: str
    platform: str
    zone: str
    zone_id: str
    count: int
    match: str
    """open or targeted."""
    created: datetime
    placement_group_arn: str = ""
    end: datetime | None = None
    start: datetime | None = None
    kind: str = "default"
    """default (ODCR) or capacity-block."""
    cancelled: bool = False
    tenancy: str = "default"
    ebs_optimized: bool = False
    ephemeral_storage: bool = False

    @property
    def state(self) -> str:
        """cancelled, scheduled, expired or active."""
        now = datetime.now(UTC)
        if self.cancelled:
            return "cancelled"
        if self.start and now < self.start:
            return "scheduled"
        return "expired" if self.end and now >= self.end else "active"


@dataclass
class CapacityReservations:
    """By id; a cancelled one stays, as it does on AWS for about an hour."""

    reservations: dict[str, CapacityReservation] = field(default_factory=dict)

    def find(self, reservation_id: str) -> CapacityReservation:
        if reservation_id not in self.reservations:
            raise ApiError(
                "InvalidCapacityReservationId.NotFound",
                f"The capacity reservation ID '{reservation_id}' does not exist.",
            )
        return self.reservations[reservation_id]
