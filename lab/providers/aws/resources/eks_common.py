"""What EKS's types share: tags, states, and updates that take a while."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.providers.aws.operation import Failed, Operation
from lab.providers.aws.table import Status, Tags

TAGS = Tags(
    add="TagResource",
    remove="UntagResource",
    target={"resourceArn": "{arn}"},
    member="tags",
    keys="tagKeys",
    form="map",
)
BUSY = ["ResourceInUseException"]
ROLE_NOT_YET = [
    "The role with name",
    "could not be assumed",
    "is not authorized to be assumed",
    "Role with arn",
]
"""What EKS says of a role that IAM hasn't spread yet (terraform-provider-aws retries on the same)."""


def _health(description: Mapping[str, Any]) -> Iterable[str]:
    for issue in (description.get("health") or {}).get("issues", []):
        resources = ", ".join(issue.get("resourceIds", []))
        yield f"{issue.get('code')}: {issue.get('message')}" + (f" ({resources})" if resources else "")


def status(minutes: float, *ready: str) -> Status:
    return Status(
        "status",
        ready=frozenset({"ACTIVE", *ready}),
        failed=frozenset({"CREATE_FAILED", "DELETE_FAILED", "UPDATE_FAILED", "FAILED"}),
        reason=_health,
        minutes=minutes,
    )


def applied(operation: Operation, answer: Mapping[str, Any], **names: str) -> None:
    """Wait for an EKS update to succeed; raises Failed with what it says when it doesn't."""
    update = answer["update"]["id"]

    def look() -> bool | None:
        found = operation.call("DescribeUpdate", updateId=update, **names)["update"]
        if found["status"] in ("Failed", "Cancelled"):
            errors = "; ".join(
                f"{each.get('errorCode')}: {each.get('errorMessage')}" for each in found["errors"]
            )
            raise Failed(f"the update {found['type']} of {operation.id} failed: {errors or found['status']}")
        return True if found["status"] == "Successful" else None

    operation.poll(look, "waiting for the update")
