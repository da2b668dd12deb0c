"""Everything that exists and isn't AWS's own default: `GET /_lab/resources`."""

from __future__ import annotations

from lab.aws.world import World


def resources(world: World) -> list[dict[str, str]]:
    """Type, id, ARN and name of each."""
    return []
