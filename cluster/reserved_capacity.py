"""Placement groups, and the capacity reservations that the stack creates.

They are created first, so that an `up` without capacity fails before anything else exists, and
cancelled last.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from cluster.settings.capacity import CapacityReservation
from cluster.settings.node_groups import NodeGroupSettings


class ReservedCapacity(pulumi.ComponentResource):
    """Reservations and placement groups, by the node group's name."""

    reservation_ids: dict[str, pulumi.Output[str]]
    placement_groups: dict[str, pulumi.Output[str]]
    """Names, including those of groups that existing reservations were created in."""

    def __init__(
        self,
        name: str,
        node_groups: Mapping[str, NodeGroupSettings],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("shardyard:cluster:ReservedCapacity", name, None, opts)
        self.reservation_ids, self.placement_groups = {}, {}
        zones = _zone_names(self, sorted({group.zone for group in node_groups.values()}))
        for group_name, settings in node_groups.items():
            label = f"{name}-{group_name}"
            placement_group = None
            if settings.placement_group:
                placement_group = aws.ec2.PlacementGroup(
                    label,
                    name=label,
                    strategy="cluster",
                    tags={"Name": label},
                    opts=pulumi.ResourceOptions(parent=self),
                )
                self.placement_groups[group_name] = placement_group.name
            capacity = settings.capacity
            if not isinstance(capacity, CapacityReservation):
                continue
            if capacity.placement_group_arn:
                given = capacity.placement_group_arn.rpartition("placement-group/")[2]
                self.placement_groups[group_name] = pulumi.Output.from_input(given)
            if capacity.create:
                reservation = aws.ec2.CapacityReservation(
                    label,
                    instance_type=settings.instance_type,
                    instance_platform="Linux/UNIX",
                    availability_zone=zones[settings.zone],
                    instance_count=capacity.create.nodes,
                    # Only instances that name the reservation use it.
                    instance_match_criteria="targeted",
                    end_date_type="unlimited",
                    placement_group_arn=placement_group.arn if placement_group else None,
                    tags={"Name": label},
                    opts=pulumi.ResourceOptions(parent=self),
                )
                self.reservation_ids[group_name] = reservation.id
        self.register_outputs({"reservation_ids": self.reservation_ids})


def _zone_names(parent: pulumi.Resource, zones: list[str]) -> dict[str, pulumi.Output[str]]:
    """This account's zone names (us-east-1a) by zone id. CreateCapacityReservation is called with names."""
    if not zones:
        return {}
    found = aws.get_availability_zones_output(
        filters=[{"name": "zone-id", "values": zones}], opts=pulumi.InvokeOutputOptions(parent=parent)
    )
    return {
        zone: found.apply(lambda answer, zone=zone: answer.names[answer.zone_ids.index(zone)])
        for zone in zones
    }
