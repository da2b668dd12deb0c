"""From a pool's settings to what its launch template says. Plain data in, plain data out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.instances import INSTANCE_TYPES
from cluster.interfaces import interfaces
from cluster.labels import EFA_LABEL, GPU_LABEL, GPU_TAINT, POOL_LABEL
from cluster.node_config import user_data
from cluster.settings.capacity import CapacityBlock, OnDemand, Reservation, Spot
from cluster.settings.pools import AcceleratedPool, Disk, SystemPool


@dataclass(frozen=True)
class Purchase:
    """How a pool buys its instances: the node group's capacity type, and the template's part."""

    capacity_type: str
    template: Mapping[str, Any]


def purchase(capacity: OnDemand | Spot | Reservation | CapacityBlock, reservation_id: Any = None) -> Purchase:
    """Translate a capacity. `reservation_id` is that of a reservation that this stack makes.

    Reservations are used with the preference capacity-reservations-only: with the default, a full or
    empty target falls back to On-Demand without a word. Capacity Blocks name their market type as
    well; on an ODCR EC2 refuses that. EKS itself asks for spot, so its template says nothing.
    """
    if isinstance(capacity, Spot):
        return Purchase("SPOT", {})
    if isinstance(capacity, OnDemand):
        # Neither "open" reservations nor those of other stacks are this pool's to use.
        return Purchase(
            "ON_DEMAND", {"capacity_reservation_specification": {"capacity_reservation_preference": "none"}}
        )
    if isinstance(capacity, CapacityBlock):
        target = {"capacity_reservation_id": capacity.id}
        return Purchase(
            "CAPACITY_BLOCK",
            {
                "instance_market_options": {"market_type": "capacity-block"},
                "capacity_reservation_specification": {"capacity_reservation_target": target},
            },
        )
    if capacity.resource_group:
        target = {"capacity_reservation_resource_group_arn": capacity.resource_group}
    else:
        target = {"capacity_reservation_id": capacity.id or reservation_id}
    return Purchase(
        "ON_DEMAND",
        {
            "capacity_reservation_specification": {
                "capacity_reservation_preference": "capacity-reservations-only",
                "capacity_reservation_target": target,
            }
        },
    )


def efa_count(pool: AcceleratedPool) -> int:
    """EFA interfaces of each node of the pool."""
    return INSTANCE_TYPES[pool.instance_type].efa if pool.efa.interfaces is None else pool.efa.interfaces


def system_template(pool: SystemPool, tags: Mapping[str, str]) -> dict[str, Any]:
    """The system pool's template. EKS adds its cluster's security group, image and instance type."""
    return {
        **_common(pool.disk, tags),
        "user_data": user_data(max_pods=pool.max_pods, local_disks=0),
    }


def accelerated_template(
    pool: AcceleratedPool,
    tags: Mapping[str, str],
    *,
    security_groups: Sequence[Any],
    placement_group: Any = None,
    reservation_id: Any = None,
) -> dict[str, Any]:
    """An accelerated pool's template.

    With interfaces of its own a template holds no subnet (the node group does), and its security
    groups belong in each interface. Raises ValueError as `interfaces` does.
    """
    instance = INSTANCE_TYPES[pool.instance_type]
    layout = interfaces(instance, efa_count(pool), pool.efa.layout)
    template = {
        **_common(pool.disk, tags),
        **purchase(pool.capacity, reservation_id).template,
        "instance_type": instance.name,
        "user_data": user_data(max_pods=pool.max_pods, local_disks=instance.disks),
        "network_interfaces": [
            {
                "network_card_index": one.card,
                "device_index": one.device,
                "interface_type": one.kind,
                "security_groups": list(security_groups),
                "delete_on_termination": "true",
                "description": f"card {one.card}, device {one.device}, {one.kind}",
            }
            for one in layout
        ],
    }
    if placement_group is not None:
        template["placement"] = {"group_name": placement_group}
    return template


def node_labels(name: str, pool: SystemPool | AcceleratedPool) -> dict[str, str]:
    """Labels of every node of the pool; the device plugins are where theirs is."""
    labels = {POOL_LABEL: name}
    if isinstance(pool, AcceleratedPool):
        labels[GPU_LABEL] = "true"
        if efa_count(pool):
            labels[EFA_LABEL] = "true"
    return {**labels, **pool.labels}


def node_taints(pool: AcceleratedPool) -> list[dict[str, str]]:
    """Taints in EKS's spelling. The GPU taint keeps pods without a GPU off the expensive nodes."""
    return [GPU_TAINT, *({"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints)]


def _common(disk: Disk, tags: Mapping[str, str]) -> dict[str, Any]:
    return {
        "update_default_version": True,
        "block_device_mappings": [
            {
                "device_name": "/dev/xvda",
                "ebs": {
                    "volume_type": "gp3",
                    "volume_size": disk.size_gib,
                    "iops": disk.iops,
                    "throughput": disk.throughput_mib,
                    "encrypted": "true",
                    "delete_on_termination": "true",
                },
            }
        ],
        "metadata_options": {
            "http_endpoint": "enabled",
            "http_tokens": "required",  # IMDSv2
            # One hop: pods off the host's network can't reach the node's role.
            "http_put_response_hop_limit": 1,
        },
        "tag_specifications": [
            {"resource_type": kind, "tags": dict(tags)}
            for kind in ("instance", "volume", "network-interface")
        ],
    }
