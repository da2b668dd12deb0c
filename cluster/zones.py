"""Zone ids: the names of Availability Zones that mean the same place in every account."""

from __future__ import annotations

import re

UNSUPPORTED_BY_CONTROL_PLANE = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""Zones where EKS takes no control plane subnet (EKS guide, "VPC and subnet requirements"). Nodes may be there."""

_COMPASS = {"north": "n", "south": "s", "east": "e", "west": "w", "central": "c"}
_ZONE_ID = re.compile(r"^(?P<region>[a-z]+\d+)-az\d+$")


def zone_id_prefix(region: str) -> str:
    """The part of a zone id that stands for the region: us-east-1 → use1, us-gov-west-1 → usgw1.

    Raises ValueError for a word that is not a region's name.
    """
    *area, direction, number = region.split("-") if region.count("-") >= 2 else [""]
    letters = direction
    for word, letter in _COMPASS.items():
        letters = letters.replace(word, letter)
    if not area or not number.isdigit() or not set(letters) <= set("nsewc"):
        raise ValueError(f"{region!r} is not the name of an AWS region, such as us-east-1")
    return (
        f"{area[0]}{''.join(part[0] for part in area[1:]) if area[1:] != ['gov'] else 'g'}{letters}{number}"
    )


def in_region(zone: str, region: str) -> bool:
    """Whether a zone id belongs to the region."""
    match = _ZONE_ID.match(zone)
    return match is not None and match["region"] == zone_id_prefix(region)


def control_plane_zones(zones: tuple[str, ...]) -> tuple[str, ...]:
    """The zones, in order, in which EKS may put the control plane's interfaces."""
    return tuple(zone for zone in zones if zone not in UNSUPPORTED_BY_CONTROL_PLANE)
