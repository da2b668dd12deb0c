"""Names that AWS completes itself."""

from __future__ import annotations


def prefix(label: str, longest: int) -> str:
    """The beginning of a name that AWS finishes with 26 characters of its own, cut to what it takes.

    The limits are those of pulumi-aws: 37 for buckets and node groups (63 in all), 38 for roles (64).
    """
    return f"{label[: longest - 1]}-"
