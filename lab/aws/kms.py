"""KMS: the period of a key's rotation, which moto doesn't keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.kms.models import Key, kms_backends

from lab.aws.actions import ApiError, Call, action

DEFAULT_DAYS = 365
SHORTEST, LONGEST = 90, 2560
"""Days (KMS API reference, EnableKeyRotation)."""


@dataclass
class Rotations:
    """By key id: days between rotations, and when the first was asked for."""

    periods: dict[str, tuple[int, datetime]] = field(default_factory=dict)


def _key(call: Call) -> Key:
    backend = kms_backends[call.account][call.region]
    key: Key | None = backend.keys.get(backend.get_key_id(call["KeyId"]))
    if key is None:
        raise ApiError("NotFoundException", f"Key '{call['KeyId']}' does not exist")
    return key


@action("kms", "EnableKeyRotation")
def enable_key_rotation(call: Call) -> None:
    key, days = _key(call), call.get("RotationPeriodInDays", DEFAULT_DAYS)
    if key.key_state == "PendingDeletion":
        raise ApiError("KMSInvalidStateException", f"{key.arn} is pending deletion.")
    if not SHORTEST <= days <= LONGEST:
        raise ApiError(
            "ValidationException", f"RotationPeriodInDays is from {SHORTEST} to {LONGEST}, not {days}."
        )
    key.key_rotation_status = True
    call.world.state(Rotations, call.region).periods[key.id] = days, datetime.now(UTC)


@action("kms", "GetKeyRotationStatus")
def get_key_rotation_status(call: Call) -> dict[str, Any]:
    """A key that is to be deleted isn't rotated."""
    key = _key(call)
    enabled = key.key_rotation_status and key.key_state != "PendingDeletion"
    status: dict[str, Any] = {"KeyId": key.arn, "KeyRotationEnabled": enabled}
    if enabled:
        days, since = call.world.state(Rotations, call.region).periods[key.id]
        status |= {"RotationPeriodInDays": days, "NextRotationDate": since + timedelta(days=days)}
    return status
