"""Placement groups, and reservations that the stack makes itself.

Made before everything else, so that an `up` for which there is no capacity fails before it has
built anything, and given back after everything else.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from cluster.settings.capacity import Reservation
from cluster.settings.pools import AcceleratedPool


class Capacity(pulumi.ComponentResource):
    """What pools need by id: reservations and placement groups, by the pool's name."""

    reservation_ids: dict[str, pulumi.Output[str]]
    placement_groups: dict[str, pulumi.Output[str]]
    """Names. A reservation's own group, made elsewhere, is among them."""

    def __init__(
        self, name: str, pools: Mapping[str, AcceleratedPool], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("shardyard:cluster:Capacity", name, None, opts)
        self.reservation_ids, self.placement_groups = {}, {}
        zones = _zone_names(self, sorted({pool.zone for pool in pools.values()}))
        for pool_name, pool in pools.items():
            label = f"{name}-{pool_name}"
            group = None
            if pool.placement_group:
                group = aws.ec2.PlacementGroup(
                    label,
                    name=label,
                    strategy="cluster",
                    tags={"Name": label},
                    opts=pulumi.ResourceOptions(parent=self),
                )
                self.placement_groups[pool_name] = group.name
            capacity = pool.capacity
            if not isinstance(capacity, Reservation):
                continue
            if capacity.placement_group_arn:
                given = capacity.placement_group_arn.rpartition("placement-group/")[2]
                self.placement_groups[pool_name] = pulumi.Output.from_input(given)
            if capacity.create:
                reservation = aws.ec2.CapacityReservation(
                    label,
                    instance_type=pool.instance_type,
                    instance_platform="Linux/UNIX",
                    availability_zone=zones[pool.zone],
                    instance_count=capacity.create.nodes,
                    # Only instances that name it, so that nobody else's land in it.
                    instance_match_criteria="targeted",
                    end_date_type="unlimited",
                    placement_group_arn=group.arn if group else None,
                    tags={"Name": label},
                    opts=pulumi.ResourceOptions(parent=self),
                )
                self.reservation_ids[pool_name] = reservation.id
        self.register_outputs({"reservation_ids": self.reservation_ids})


def _zone_names(parent: pulumi.Resource, zones: list[str]) -> dict[str, pulumi.Output[str]]:
    """This account's names (us-east-1a) for zone ids; a reservation takes nothing else."""
    if not zones:
        return {}
    found = aws.get_availability_zones_output(
        filters=[{"name": "zone-id", "values": zones}], opts=pulumi.InvokeOutputOptions(parent=parent)
    )
    return {
        zone: found.apply(lambda answer, zone=zone: answer.names[answer.zone_ids.index(zone)])
        for zone in zones
    }
