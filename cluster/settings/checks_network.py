"""Zones, networks that overlap, and whether the addresses last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from math import ceil

from cluster import addressing
from cluster.instances import INSTANCE_TYPES
from cluster.settings.pools import AcceleratedPool, SystemPool
from cluster.settings.problems import Problem
from cluster.settings.sections import Kubernetes, Network, Storage
from cluster.zones import control_plane_zones, in_region, zone_id_prefix


def zones_are_of_the_region(region: str, network: Network) -> Iterator[Problem]:
    try:
        prefix = zone_id_prefix(region)
    except ValueError as error:
        yield Problem("region", str(error))
        return
    for number, zone in enumerate(network.zones):
        if not in_region(zone, region):
            yield Problem(
                f"network.zones[{number}]",
                f"{zone} is not in {region}",
                f"Zone ids there begin with {prefix}: aws ec2 describe-availability-zones --region {region}",
            )


def zones_are_named_once(network: Network) -> Iterator[Problem]:
    if len(set(network.zones)) < len(network.zones):
        yield Problem("network.zones", "names a zone twice")


def control_plane_has_two_zones(network: Network) -> Iterator[Problem]:
    named_once = len(set(network.zones)) == len(network.zones)
    if named_once and len(control_plane_zones(network.zones)) < 2:
        yield Problem(
            "network.zones",
            f"EKS needs two zones for the control plane and takes none of {', '.join(network.zones)}"
            if not control_plane_zones(network.zones)
            else f"EKS needs two zones for the control plane and takes only {control_plane_zones(network.zones)[0]}",
            "Add a zone; it need not hold any pool.",
        )


def network_can_be_cut_up(network: Network) -> Iterator[Problem]:
    try:
        addressing.plan(network.cidr, len(network.zones))
    except ValueError as error:
        yield Problem("network.cidr", str(error))


def networks_do_not_overlap(network: Network, kubernetes: Kubernetes) -> Iterator[Problem]:
    own = IPv4Network(network.cidr)
    if own.overlaps(IPv4Network(kubernetes.service_cidr)):
        what = f"{network.cidr} overlaps the network of Kubernetes' services, {kubernetes.service_cidr}"
        yield Problem("network.cidr", what, "Move one of them (kubernetes.serviceCidr).")
    for number, other in enumerate(network.avoid):
        if own.overlaps(IPv4Network(other)):
            yield Problem("network.cidr", f"{network.cidr} overlaps network.avoid[{number}], {other}")


def pods_have_addresses(
    kubernetes: Kubernetes, system_pool: SystemPool, pools: Mapping[str, AcceleratedPool]
) -> Iterator[Problem]:
    """maxPods is what the kubelet admits; beyond the CNI's count, pods wait for an address for ever."""
    everyone: dict[str, SystemPool | AcceleratedPool] = {"systemPool": system_pool}
    everyone |= {f"pools.{name}": pool for name, pool in pools.items()}
    for path, pool in everyone.items():
        instance = INSTANCE_TYPES.get(pool.instance_type)
        if instance is None:
            continue
        efa, layout = _efa(pool)
        interfaces = addressing.pod_interfaces(instance, efa, layout)
        most = addressing.pods_addressable(instance, interfaces, kubernetes.prefix_delegation)
        if pool.max_pods > most:
            yield Problem(
                f"{path}.maxPods",
                f"{pool.max_pods} pods, but a {instance.name} has addresses for {most}",
                f"Use {most} or fewer"
                + ("." if kubernetes.prefix_delegation else ", or set kubernetes.prefixDelegation to true."),
            )


def addresses_last(
    network: Network,
    kubernetes: Kubernetes,
    system_pool: SystemPool,
    pools: Mapping[str, AcceleratedPool],
    storage: Storage,
) -> Iterator[Problem]:
    """Every zone's private subnet holds everything that can be in it at once."""
    try:
        subnets = addressing.plan(network.cidr, len(network.zones)).private
    except ValueError:
        return  # said by network_can_be_cut_up
    for zone, subnet in zip(network.zones, subnets, strict=True):
        needs = {
            "the control plane": addressing.CONTROL_PLANE_KEEPS,
            "interface endpoints": len(network.interface_endpoints),
            "the system pool": _system_addresses(system_pool, kubernetes, len(network.zones)),
        }
        if storage.file_system.zone == zone:
            needs["the file system"] = addressing.file_system_addresses(storage.file_system.capacity_gib)
        for name, pool in pools.items():
            if pool.zone == zone:
                needs[f"pool {name}"] = _pool_addresses(pool, kubernetes)
        total = sum(needs.values())
        if total > addressing.usable(subnet):
            largest = max(needs, key=lambda who: needs[who])
            yield Problem(
                "network.cidr",
                f"the subnet of {zone}, {subnet}, has {addressing.usable(subnet)} addresses and {total} are needed "
                f"({', '.join(f'{who}: {count}' for who, count in needs.items())})",
                f"Take a larger network, or make {largest} smaller (nodes, maxPods"
                + (
                    ", efa.layout: efa-only)." if any(p.efa.layout == "efa" for p in pools.values()) else ")."
                ),
            )


def _efa(pool: SystemPool | AcceleratedPool) -> tuple[int, str]:
    """How many EFA interfaces a node of the pool has, and their kind."""
    if isinstance(pool, SystemPool):
        return 0, "efa-only"
    if pool.efa.interfaces is not None:
        return pool.efa.interfaces, pool.efa.layout
    return INSTANCE_TYPES[pool.instance_type].efa, pool.efa.layout


def _pool_addresses(pool: SystemPool | AcceleratedPool, kubernetes: Kubernetes) -> int:
    instance = INSTANCE_TYPES.get(pool.instance_type)
    if instance is None:
        return 0
    efa, layout = _efa(pool)
    return pool.nodes.max * addressing.node_addresses(
        instance,
        max_pods=pool.max_pods,
        efa_interfaces=efa,
        layout=layout,
        prefixes=kubernetes.prefix_delegation,
    )


def _system_addresses(pool: SystemPool, kubernetes: Kubernetes, zones: int) -> int:
    """The zone's share of the pool, and the two nodes a zone that EKS adds while it updates a group."""
    nodes = ceil(pool.nodes.max / zones) + 2
    return ceil(_pool_addresses(pool, kubernetes) / pool.nodes.max) * nodes


CHECKS = (
    zones_are_of_the_region,
    zones_are_named_once,
    control_plane_has_two_zones,
    network_can_be_cut_up,
    networks_do_not_overlap,
    pods_have_addresses,
    addresses_last,
)
