"""Zones, networks that overlap, and whether the addresses suffice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from math import ceil

from cluster import addressing
from cluster.settings.node_groups import NodeGroupSettings, SystemNodeGroupSettings
from cluster.settings.problems import Problem
from cluster.settings.sections import KubernetesSettings, NetworkSettings, Storage
from cluster.zones import control_plane_zones, in_region, zone_id_prefix

NodeGroups = Mapping[str, NodeGroupSettings]
AnyNodeGroup = SystemNodeGroupSettings | NodeGroupSettings


def zones_are_of_the_region(region: str, network: NetworkSettings) -> Iterator[Problem]:
    try:
        prefix = zone_id_prefix(region)
    except ValueError as error:
        yield Problem("region", str(error), "aws account list-regions lists those of your account.")
        return
    for number, zone in enumerate(network.zones):
        if not in_region(zone, region):
            yield Problem(
                f"network.zones[{number}]",
                f"{zone} is not in {region}",
                f"Zone ids there begin with {prefix}: aws ec2 describe-availability-zones --region {region}",
            )


def zones_are_distinct(network: NetworkSettings) -> Iterator[Problem]:
    if len(set(network.zones)) < len(network.zones):
        yield Problem("network.zones", "names a zone twice", "Name two or three different zones.")


def control_plane_has_two_zones(network: NetworkSettings) -> Iterator[Problem]:
    usable = control_plane_zones(network.zones)
    if len(set(network.zones)) == len(network.zones) and len(usable) < 2:
        accepted = f"only {usable[0]}" if usable else f"none of {', '.join(network.zones)}"
        yield Problem(
            "network.zones",
            f"EKS needs two zones for the control plane and accepts {accepted}",
            "Add a zone; it need not have any node group.",
        )


def networks_do_not_overlap(network: NetworkSettings, kubernetes: KubernetesSettings) -> Iterator[Problem]:
    own = IPv4Network(network.cidr)
    if own.overlaps(IPv4Network(kubernetes.service_cidr)):
        what = f"{network.cidr} overlaps the network of Kubernetes' Services, {kubernetes.service_cidr}"
        yield Problem("network.cidr", what, "Change one of them (kubernetes.serviceCidr).")
    for number, other in enumerate(network.reserved_cidrs):
        if own.overlaps(IPv4Network(other)):
            what = f"{network.cidr} overlaps network.reservedCidrs[{number}], {other}"
            yield Problem("network.cidr", what, "Choose another private network.")


def pods_have_addresses(
    kubernetes: KubernetesSettings, system_node_group: SystemNodeGroupSettings, node_groups: NodeGroups
) -> Iterator[Problem]:
    """The kubelet admits maxPods; beyond the VPC CNI's addresses, pods stay in ContainerCreating."""
    groups: dict[str, AnyNodeGroup] = {"systemNodeGroup": system_node_group}
    groups |= {f"nodeGroups.{name}": group for name, group in node_groups.items()}
    for path, group in groups.items():
        interfaces = addressing.pod_interfaces(group.instance, group.efa_interfaces, group.efa.interface_type)
        most = addressing.pods_addressable(group.instance, interfaces, kubernetes.prefix_delegation)
        if group.max_pods > most:
            yield Problem(
                f"{path}.maxPods",
                f"{group.max_pods} pods, but a {group.instance_type} has addresses for {most}",
                f"Use {most} or fewer"
                + ("." if kubernetes.prefix_delegation else ", or set kubernetes.prefixDelegation to true."),
            )


def addresses_suffice(
    network: NetworkSettings,
    kubernetes: KubernetesSettings,
    system_node_group: SystemNodeGroupSettings,
    node_groups: NodeGroups,
    storage: Storage,
) -> Iterator[Problem]:
    """Every zone's private subnet has addresses for everything that can be in it at the same time."""
    prefixes = kubernetes.prefix_delegation
    for zone, subnet in zip(network.zones, network.address_plan.private, strict=True):
        needs = {
            "the control plane": addressing.CONTROL_PLANE_ADDRESSES,
            "interface endpoints": len(network.interface_endpoints),
            "the system node group": _system_addresses(system_node_group, prefixes, len(network.zones)),
        }
        if storage.file_system.zone == zone:
            needs["the file system"] = addressing.file_system_addresses(storage.file_system.capacity_gib)
        for name, group in node_groups.items():
            if group.zone == zone:
                needs[f"node group {name}"] = group.nodes.max * _node_addresses(group, prefixes)
        total, available = sum(needs.values()), addressing.usable(subnet)
        if total > available:
            largest = max(needs, key=lambda who: needs[who])
            addressed = any(group.efa.interface_type == "efa" for group in node_groups.values())
            yield Problem(
                "network.cidr",
                f"the subnet of {zone}, {subnet}, has {available} addresses and {total} are needed "
                f"({', '.join(f'{who}: {count}' for who, count in needs.items())})",
                f"Use a larger network, or make {largest} smaller (nodes, maxPods"
                + (", efa.interfaceType: efa-only)." if addressed else ")."),
            )


def _node_addresses(group: AnyNodeGroup, prefixes: bool) -> int:
    return addressing.node_addresses(
        group.instance,
        max_pods=group.max_pods,
        efa_interfaces=group.efa_interfaces,
        interface_type=group.efa.interface_type,
        prefixes=prefixes,
    )


def _system_addresses(group: SystemNodeGroupSettings, prefixes: bool, zones: int) -> int:
    """The zone's share of the group, and the two nodes per zone that EKS adds while it updates a group."""
    return _node_addresses(group, prefixes) * (ceil(group.nodes.max / zones) + 2)
