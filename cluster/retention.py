"""What `pulumi destroy` leaves in the account: data, and everything that protects it."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

TAG = {"shardyard:on-destroy": "keep"}
"""Tag of buckets and repositories that are kept on purpose, so that they can be told from a leak later."""


def tags(name: str, *, delete: bool) -> dict[str, str]:
    """Tags of a bucket or a repository of this name."""
    return {"Name": name, **({} if delete else TAG)}


def on_destroy(
    parent: pulumi.Resource, *, delete: bool, depends_on: Sequence[pulumi.Resource] = ()
) -> pulumi.ResourceOptions:
    """Options of what holds data, and of everything that protects it.

    Without `delete` the engine forgets it on destroy and leaves it as it is: a kept bucket must not lose its
    policy, its encryption or its public access block.
    """
    return pulumi.ResourceOptions(parent=parent, retain_on_delete=not delete, depends_on=list(depends_on))
