"""Node groups and capacity: what EC2 or EKS would refuse, or grant and then not use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

from cluster.settings.capacity import CapacityBlock, CapacityReservation
from cluster.settings.metadata import MAX_TAGS, OWN_TAGS
from cluster.settings.node_groups import NodeGroupSettings, SystemNodeGroupSettings
from cluster.settings.problems import Problem
from cluster.settings.sections import NetworkSettings

NodeGroups = Mapping[str, NodeGroupSettings]


def system_is_not_a_node_group(node_group_names: Collection[str]) -> Iterator[Problem]:
    if "system" in node_group_names:
        yield Problem(
            "nodeGroups.system", "is the name of the system node group", "Choose another name, such as p5."
        )


def node_groups_are_in_the_network(network: NetworkSettings, node_groups: NodeGroups) -> Iterator[Problem]:
    for name, group in node_groups.items():
        if group.zone not in network.zones:
            yield Problem(
                f"nodeGroups.{name}.zone",
                f"{group.zone} is none of the network's zones ({', '.join(network.zones)})",
                "Choose one of them, or add the zone at the end of network.zones.",
            )


def efa_interfaces_fit_the_type(node_groups: NodeGroups) -> Iterator[Problem]:
    for name, group in node_groups.items():
        most = group.instance.max_efa_interfaces
        if group.efa_interfaces > most:
            yield Problem(
                f"nodeGroups.{name}.efa.interfaces",
                f"{group.efa_interfaces} EFA interfaces, but a {group.instance_type} supports {most}",
                "Remove the key to get as many as the type supports.",
            )


def reservations_suffice(node_groups: NodeGroups) -> Iterator[Problem]:
    for name, group in node_groups.items():
        path, capacity = f"nodeGroups.{name}", group.capacity
        if not isinstance(capacity, CapacityReservation | CapacityBlock):
            continue
        if capacity.zone and capacity.zone != group.zone:
            yield Problem(
                f"{path}.zone",
                f"{group.zone} is not the zone of the capacity ({capacity.zone})",
                f"Set it to {capacity.zone}.",
            )
        if group.nodes.max > capacity.size:
            yield Problem(
                f"{path}.nodes.max",
                f"up to {group.nodes.max} nodes, but the reservation holds {capacity.size}",
                "Nodes beyond it never start: lower max, or reserve more.",
            )


def shared_reservations_suffice(node_groups: NodeGroups) -> Iterator[Problem]:
    users: dict[str, list[str]] = defaultdict(list)
    for name, group in node_groups.items():
        if isinstance(group.capacity, CapacityReservation | CapacityBlock) and group.capacity.target:
            users[group.capacity.target].append(name)
    for target, names in users.items():
        wanted = sum(node_groups[name].nodes.max for name in names)
        held = {getattr(node_groups[name].capacity, "size", 0) for name in names}
        if len(names) > 1 and (len(held) > 1 or wanted > max(held)):
            yield Problem(
                f"nodeGroups.{names[-1]}.capacity",
                f"node groups {', '.join(names)} share {target}: together up to {wanted} nodes, and it holds "
                f"{' or '.join(map(str, sorted(held)))}",
                "Lower nodes.max of one of them, and write the reservation's size into each capacity.nodes.",
            )


def placement_groups_fit(node_groups: NodeGroups) -> Iterator[Problem]:
    """A reservation is used only by instances of the placement group that it was created in."""
    for name, group in node_groups.items():
        if not group.placement_group:
            continue
        if isinstance(group.capacity, CapacityBlock):
            yield Problem(
                f"nodeGroups.{name}.placementGroup",
                "EC2 places the instances of a capacity block itself",
                "Set it to false.",
            )
        elif isinstance(group.capacity, CapacityReservation) and group.capacity.create is None:
            yield Problem(
                f"nodeGroups.{name}.placementGroup",
                "an existing reservation can't be used from a new placement group",
                "Set it to false, and capacity.placementGroupArn to the reservation's own group if it has one.",
            )


def blocks_are_open(node_groups: NodeGroups, now: datetime) -> Iterator[Problem]:
    """A block's instances start within its window only, and without any the creation of the node group fails."""
    for name, group in node_groups.items():
        block = group.capacity
        if not isinstance(block, CapacityBlock):
            continue
        if now >= block.reclaimed_at:
            yield Problem(
                f"nodeGroups.{name}.capacity.endDate",
                f"the capacity block ends at {block.end_date:%Y-%m-%d %H:%M %Z}, and EC2 terminates its instances "
                "from 30 minutes earlier on",
                "Name the next block, or remove the node group.",
            )
        elif now < block.start_date and group.nodes.desired > 0:
            yield Problem(
                f"nodeGroups.{name}.nodes.desired",
                f"{group.nodes.desired} nodes, but the capacity block starts at "
                f"{block.start_date:%Y-%m-%d %H:%M %Z}",
                "Set desired and min to 0 until then, and scale the node group when it has started.",
            )


def arns_are_of_the_region(region: str, node_groups: NodeGroups) -> Iterator[Problem]:
    for name, group in node_groups.items():
        if isinstance(group.capacity, CapacityReservation):
            for key, arn in (
                ("resourceGroupArn", group.capacity.resource_group_arn),
                ("placementGroupArn", group.capacity.placement_group_arn),
            ):
                if arn and arn.split(":")[3] != region:
                    yield Problem(
                        f"nodeGroups.{name}.capacity.{key}",
                        f"{arn} is not in {region}",
                        f"Name one of {region}, or change shardyard:region.",
                    )


def tags_fit_together(
    tags: Mapping[str, str], node_groups: NodeGroups, system_node_group: SystemNodeGroupSettings
) -> Iterator[Problem]:
    """A node group has the stack's tags, its own, and those of the program."""
    groups: dict[str, NodeGroupSettings | SystemNodeGroupSettings] = {"systemNodeGroup": system_node_group}
    groups |= {f"nodeGroups.{name}": group for name, group in node_groups.items()}
    for path, group in groups.items():
        count = len({*tags, *group.tags, *OWN_TAGS})
        if count > MAX_TAGS:
            yield Problem(
                f"{path}.tags",
                f"{count} tags together with shardyard:tags and {' and '.join(OWN_TAGS)}; AWS allows {MAX_TAGS}",
                f"Remove {count - MAX_TAGS} of them.",
            )
