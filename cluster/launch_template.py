"""Launch templates as plain data, from the settings of a node group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.instances import INSTANCE_TYPES
from cluster.labels import EFA_LABEL, GPU_LABEL, GPU_TAINT, POOL_LABEL
from cluster.network_interfaces import network_interfaces
from cluster.node_config import user_data
from cluster.settings.capacity import CapacityBlock, CapacityReservation, OnDemand, Spot
from cluster.settings.node_groups import NodeGroupSettings, RootVolume, SystemNodeGroupSettings


@dataclass(frozen=True)
class CapacityOptions:
    """A node group's capacity type, and the launch template's market options and capacity reservation."""

    capacity_type: str
    template: Mapping[str, Any]


def capacity_options(
    capacity: OnDemand | Spot | CapacityReservation | CapacityBlock, reservation_id: Any = None
) -> CapacityOptions:
    """Translate a capacity. `reservation_id` is the id of the reservation that this stack creates, if it does.

    Reservations are used with the preference capacity-reservations-only: with the default, instances
    start as ordinary On-Demand ones when the reservation is full. Capacity Blocks need their market
    type as well, which EC2 refuses for an ODCR. Spot is requested by EKS, not by the template.
    """
    if isinstance(capacity, Spot):
        return CapacityOptions("SPOT", {})
    if isinstance(capacity, OnDemand):
        # Don't use up other people's open reservations.
        return CapacityOptions(
            "ON_DEMAND", {"capacity_reservation_specification": {"capacity_reservation_preference": "none"}}
        )
    if isinstance(capacity, CapacityBlock):
        target = {"capacity_reservation_id": capacity.id}
        return CapacityOptions(
            "CAPACITY_BLOCK",
            {
                "instance_market_options": {"market_type": "capacity-block"},
                "capacity_reservation_specification": {"capacity_reservation_target": target},
            },
        )
    if capacity.resource_group_arn:
        target = {"capacity_reservation_resource_group_arn": capacity.resource_group_arn}
    else:
        target = {"capacity_reservation_id": capacity.id or reservation_id}
    return CapacityOptions(
        "ON_DEMAND",
        {
            "capacity_reservation_specification": {
                "capacity_reservation_preference": "capacity-reservations-only",
                "capacity_reservation_target": target,
            }
        },
    )


def system_template(settings: SystemNodeGroupSettings, tags: Mapping[str, str]) -> dict[str, Any]:
    """The system node group's template. EKS adds the cluster's security group, the image and the instance type."""
    return {
        **_common(settings.root_volume, tags),
        "user_data": user_data(max_pods=settings.max_pods, instance_store_volumes=0),
    }


def accelerated_template(
    settings: NodeGroupSettings,
    tags: Mapping[str, str],
    *,
    security_groups: Sequence[Any],
    placement_group: Any = None,
    reservation_id: Any = None,
) -> dict[str, Any]:
    """An accelerated node group's template.

    It lists its network interfaces, so the security groups are those of each interface; the subnet comes
    from the node group. Raises ValueError as `network_interfaces` does.
    """
    instance = INSTANCE_TYPES[settings.instance_type]
    interfaces = network_interfaces(instance, settings.efa_interfaces, settings.efa.interface_type)
    template = {
        **_common(settings.root_volume, tags),
        **capacity_options(settings.capacity, reservation_id).template,
        "instance_type": instance.name,
        "user_data": user_data(
            max_pods=settings.max_pods, instance_store_volumes=instance.instance_store_volumes
        ),
        "network_interfaces": [
            {
                "network_card_index": one.network_card_index,
                "device_index": one.device_index,
                "interface_type": one.interface_type,
                "security_groups": list(security_groups),
                "delete_on_termination": "true",
                "description": f"card {one.network_card_index}, device {one.device_index}, {one.interface_type}",
            }
            for one in interfaces
        ],
    }
    if placement_group is not None:
        template["placement"] = {"group_name": placement_group}
    return template


def node_labels(name: str, settings: SystemNodeGroupSettings | NodeGroupSettings) -> dict[str, str]:
    """Labels of every node of the group. The device plugins run on nodes that have theirs."""
    labels = {POOL_LABEL: name}
    if isinstance(settings, NodeGroupSettings):
        labels[GPU_LABEL] = "true"
        if settings.efa_interfaces:
            labels[EFA_LABEL] = "true"
    return {**labels, **settings.labels}


def node_taints(settings: NodeGroupSettings) -> list[dict[str, str]]:
    """Taints in EKS's spelling. The GPU taint keeps pods without a GPU off the expensive nodes."""
    return [GPU_TAINT, *({"key": t.key, "value": t.value, "effect": t.effect} for t in settings.taints)]


def _common(volume: RootVolume, tags: Mapping[str, str]) -> dict[str, Any]:
    return {
        "update_default_version": True,
        "block_device_mappings": [
            {
                "device_name": "/dev/xvda",
                "ebs": {
                    "volume_type": "gp3",
                    "volume_size": volume.size_gib,
                    "iops": volume.iops,
                    "throughput": volume.throughput_mib,
                    "encrypted": "true",
                    "delete_on_termination": "true",
                },
            }
        ],
        "metadata_options": {
            "http_endpoint": "enabled",
            "http_tokens": "required",  # IMDSv2
            # One hop: pods outside the host's network can't use the node's role.
            "http_put_response_hop_limit": 1,
        },
        "tag_specifications": [
            {"resource_type": kind, "tags": dict(tags)}
            for kind in ("instance", "volume", "network-interface")
        ],
    }
