"""Instance types, EFA and capacity: what EC2 would refuse, or grant and then not use."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from cluster.instances import ACCELERATED, INSTANCE_TYPES, SYSTEM
from cluster.settings.capacity import CapacityBlock, Reservation
from cluster.settings.pools import AcceleratedPool, SystemPool
from cluster.settings.problems import Problem
from cluster.settings.sections import Network

RECLAIMED_BEFORE_END = timedelta(minutes=30)
"""EC2 begins to terminate a block's instances so long before its end (EC2 guide, "Capacity Blocks")."""

Pools = Mapping[str, AcceleratedPool]


def types_are_known(pools: Pools) -> Iterator[Problem]:
    for name, pool in pools.items():
        if pool.instance_type not in ACCELERATED:
            yield _unknown_type(f"pools.{name}.instanceType", pool.instance_type, ACCELERATED)


def system_type_is_known(system_pool: SystemPool) -> Iterator[Problem]:
    if system_pool.instance_type not in SYSTEM:
        yield _unknown_type("systemPool.instanceType", system_pool.instance_type, SYSTEM)


def _unknown_type(path: str, given: str, known: Sequence[str]) -> Problem:
    close = difflib.get_close_matches(given, known, n=1, cutoff=0.75)
    todo = f"Did you mean {close[0]}?" if close else f"Known here: {', '.join(known)} (cluster/instances.py)."
    return Problem(path, f"{given} is not a type for this pool", todo)


def pool_names_are_free(pools: Pools) -> Iterator[Problem]:
    if "system" in pools:
        yield Problem("pools.system", "is the name of the system pool", "Choose another name.")


def pools_are_in_the_network(network: Network, pools: Pools) -> Iterator[Problem]:
    for name, pool in pools.items():
        if pool.zone not in network.zones:
            yield Problem(
                f"pools.{name}.zone",
                f"{pool.zone} is none of the network's zones ({', '.join(network.zones)})",
                "Put the pool into one of them, or add the zone at the end of network.zones.",
            )


def efa_fits_the_type(pools: Pools) -> Iterator[Problem]:
    for name, pool in pools.items():
        instance = INSTANCE_TYPES.get(pool.instance_type)
        if instance and pool.efa.interfaces is not None and pool.efa.interfaces > instance.efa:
            yield Problem(
                f"pools.{name}.efa.interfaces",
                f"{pool.efa.interfaces} EFA interfaces, but a {instance.name} takes {instance.efa}",
                "Leave it out to get as many as the type has.",
            )


def reservations_fit(pools: Pools) -> Iterator[Problem]:
    for name, pool in pools.items():
        path, capacity = f"pools.{name}", pool.capacity
        if not isinstance(capacity, Reservation | CapacityBlock):
            continue
        if capacity.zone and capacity.zone != pool.zone:
            yield Problem(
                f"{path}.zone",
                f"{pool.zone} is not where the capacity is ({capacity.zone})",
                f"Set it to {capacity.zone}.",
            )
        size = capacity.size if isinstance(capacity, Reservation) else capacity.nodes
        if pool.nodes.max > size:
            yield Problem(
                f"{path}.nodes.max",
                f"up to {pool.nodes.max} nodes, but the reservation holds {size}",
                "Nodes beyond it never start: lower max, or reserve more.",
            )


def reservations_are_shared_fairly(pools: Pools) -> Iterator[Problem]:
    users: dict[str, list[str]] = defaultdict(list)
    for name, pool in pools.items():
        capacity = pool.capacity
        if isinstance(capacity, Reservation | CapacityBlock):
            target = capacity.id or getattr(capacity, "resource_group", None)
            if target:
                users[target].append(name)
    for target, names in users.items():
        wanted = sum(pools[name].nodes.max for name in names)
        held = {getattr(pools[name].capacity, "nodes", 0) for name in names}
        if len(names) > 1 and (len(held) > 1 or wanted > max(held)):
            yield Problem(
                f"pools.{names[-1]}.capacity",
                f"pools {', '.join(names)} share {target}: together up to {wanted} nodes, and it holds "
                f"{' or '.join(map(str, sorted(held)))}",
            )


def placement_groups_fit(pools: Pools) -> Iterator[Problem]:
    """A group and a reservation that was not made in it give fewer nodes than reserved, or none."""
    for name, pool in pools.items():
        if not pool.placement_group:
            continue
        if isinstance(pool.capacity, CapacityBlock):
            yield Problem(
                f"pools.{name}.placementGroup",
                "a capacity block is placed by EC2 already",
                "Set it to false.",
            )
        elif isinstance(pool.capacity, Reservation) and pool.capacity.create is None:
            yield Problem(
                f"pools.{name}.placementGroup",
                "a new group can't hold a reservation that was made elsewhere",
                "Set it to false, and capacity.placementGroupArn to the reservation's own group if it has one.",
            )


def blocks_are_open(pools: Pools, now: datetime) -> Iterator[Problem]:
    """Instances of a block start in its window only, and a group that can't start any fails as a whole."""
    for name, pool in pools.items():
        block = pool.capacity
        if not isinstance(block, CapacityBlock):
            continue
        if now >= block.ends - RECLAIMED_BEFORE_END:
            yield Problem(
                f"pools.{name}.capacity.ends",
                f"the capacity block ends at {block.ends:%Y-%m-%d %H:%M %Z}, and EC2 takes its instances back "
                "30 minutes earlier",
                "Name the next block, or remove the pool.",
            )
        elif now < block.starts and pool.nodes.desired > 0:
            yield Problem(
                f"pools.{name}.nodes.desired",
                f"{pool.nodes.desired} nodes, but the capacity block starts at {block.starts:%Y-%m-%d %H:%M %Z}",
                "Set desired and min to 0 until then, and scale the pool when it has started.",
            )


def targets_are_in_the_region(region: str, pools: Pools) -> Iterator[Problem]:
    for name, pool in pools.items():
        if isinstance(pool.capacity, Reservation):
            for key, arn in (
                ("resourceGroup", pool.capacity.resource_group),
                ("placementGroupArn", pool.capacity.placement_group_arn),
            ):
                if arn and arn.split(":")[3] != region:
                    yield Problem(f"pools.{name}.capacity.{key}", f"{arn} is not in {region}")


CHECKS = (
    types_are_known,
    system_type_is_known,
    pool_names_are_free,
    pools_are_in_the_network,
    efa_fits_the_type,
    reservations_fit,
    reservations_are_shared_fairly,
    placement_groups_fit,
    blocks_are_open,
    targets_are_in_the_region,
)
