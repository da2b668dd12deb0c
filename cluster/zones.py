"""Zone ids: the names of Availability Zones that mean the same place in every account."""

from __future__ import annotations

import re

UNSUPPORTED_BY_CONTROL_PLANE = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
"""Zones where EKS refuses control plane subnets (EKS guide, "VPC and subnet requirements"). Nodes may run there."""

_WORDS = "north|south|east|west|central"
_REGION = re.compile(rf"^(?P<area>[a-z]{{2}})-(?P<gov>gov-)?(?P<direction>(?:{_WORDS})+)-(?P<number>\d+)$")
_ZONE_ID = re.compile(r"^(?P<region>[a-z]+\d+)-az\d+$")


def zone_id_prefix(region: str) -> str:
    """The region's part of a zone id: us-east-1 → use1, ap-northeast-2 → apne2.

    Raises ValueError for a word that is not a region's name.
    """
    match = _REGION.match(region)
    if match is None:
        raise ValueError(f"{region!r} is not the name of an AWS region, such as us-east-1")
    initials = "".join(word[0] for word in re.findall(_WORDS, match["direction"]))
    return f"{match['area']}{'g' if match['gov'] else ''}{initials}{match['number']}"


def in_region(zone: str, region: str) -> bool:
    """Whether a zone id belongs to the region."""
    match = _ZONE_ID.match(zone)
    return match is not None and match["region"] == zone_id_prefix(region)


def control_plane_zones(zones: tuple[str, ...]) -> tuple[str, ...]:
    """The zones, in order, in which EKS may put the control plane's interfaces."""
    return tuple(zone for zone in zones if zone not in UNSUPPORTED_BY_CONTROL_PLANE)
