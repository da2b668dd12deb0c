"""Prefixes of names that the provider completes with a unique suffix."""

from __future__ import annotations


def prefix(label: str, longest: int) -> str:
    """A name prefix of at most `longest` characters; pulumi-aws appends a suffix of 26.

    Limits of pulumi-aws: 37 for buckets and node groups (63 in all), 38 for roles (64).
    """
    return f"{label[: longest - 1]}-"
