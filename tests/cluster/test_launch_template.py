"""From a node group to its launch template: capacity, interfaces, volumes, user data."""

from __future__ import annotations

import base64
import email
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.instances import ACCELERATED, INSTANCE_TYPES
from cluster.launch_template import (
    accelerated_template,
    capacity_options,
    node_labels,
    node_taints,
    system_template,
)
from cluster.node_config import node_config, user_data
from cluster.settings.capacity import (
    CapacityBlock,
    CapacityReservation,
    NewCapacityReservation,
    OnDemand,
    Spot,
)
from cluster.settings.node_groups import (
    Efa,
    NodeGroupSettings,
    Nodes,
    SystemNodeGroupSettings,
    SystemNodes,
    Taint,
)

GROUP = "arn:aws:resource-groups:us-east-1:123456789012:group/p5"
ID = "cr-0123456789abcdef0"
CREATED = CapacityReservation(kind="odcr", create=NewCapacityReservation(nodes=2))
BY_ID = CapacityReservation(kind="odcr", id=ID, zone="use1-az6", nodes=2)
BY_GROUP = CapacityReservation(kind="odcr", resource_group_arn=GROUP, zone="use1-az6", nodes=2)
BLOCK = CapacityBlock(
    kind="capacity-block",
    id=ID,
    zone="use1-az6",
    nodes=2,
    start_date=datetime(2026, 12, 1, tzinfo=UTC),
    end_date=datetime(2026, 12, 2, tzinfo=UTC),
)


def pool(instance_type: str = "p5.48xlarge", **changes: Any) -> NodeGroupSettings:
    values: dict[str, Any] = {"capacity": OnDemand(kind="on-demand"), **changes}
    return NodeGroupSettings(
        instance_type=instance_type, zone="use1-az6", nodes=Nodes(desired=2, max=2), **values
    )


def test_reservations_are_used_or_nothing_is() -> None:
    only = "capacity-reservations-only"
    for capacity, target in (
        (CREATED, {"capacity_reservation_id": "cr-made-here"}),
        (BY_ID, {"capacity_reservation_id": ID}),
        (BY_GROUP, {"capacity_reservation_resource_group_arn": GROUP}),
    ):
        bought = capacity_options(capacity, "cr-made-here")
        assert bought.capacity_type == "ON_DEMAND"
        assert bought.template == {
            "capacity_reservation_specification": {
                "capacity_reservation_preference": only,
                "capacity_reservation_target": target,
            }
        }


def test_a_block_names_its_market_and_a_reservation_does_not() -> None:
    bought = capacity_options(BLOCK)
    assert bought.capacity_type == "CAPACITY_BLOCK"
    assert bought.template["instance_market_options"] == {"market_type": "capacity-block"}
    target = bought.template["capacity_reservation_specification"]["capacity_reservation_target"]
    assert target == {"capacity_reservation_id": ID}
    for capacity in (CREATED, BY_ID, BY_GROUP, OnDemand(kind="on-demand"), Spot(kind="spot")):
        assert "instance_market_options" not in capacity_options(capacity).template


def test_spot_is_the_node_group_s_business() -> None:
    assert capacity_options(Spot(kind="spot")).capacity_type == "SPOT"
    assert capacity_options(Spot(kind="spot")).template == {}


def test_on_demand_takes_nobody_s_reservation() -> None:
    specification = capacity_options(OnDemand(kind="on-demand")).template[
        "capacity_reservation_specification"
    ]
    assert specification == {"capacity_reservation_preference": "none"}


@given(st.sampled_from(ACCELERATED), st.sampled_from(["efa-only", "efa"]), st.data())
def test_templates_of_every_type(name: str, layout: str, data: st.DataObject) -> None:
    instance = INSTANCE_TYPES[name]
    count = data.draw(st.none() | st.integers(0, instance.max_efa_interfaces))
    efa = Efa(interfaces=count, interface_type=layout)  # type: ignore[arg-type]
    template = accelerated_template(pool(name, efa=efa), {"a": "b"}, security_groups=["sg-1", "sg-2"])
    interfaces = template["network_interfaces"]
    wanted = instance.max_efa_interfaces if count is None else count
    assert sum(one["interface_type"] in ("efa", "efa-only") for one in interfaces) == wanted
    for one in interfaces:
        assert one["security_groups"] == ["sg-1", "sg-2"], "a template with interfaces has its groups in them"
        assert one["delete_on_termination"] == "true", "or they outlive the node, and the subnet can't go"
        assert "subnet_id" not in one, "the node group has the subnet"
    assert "vpc_security_group_ids" not in template
    assert template["instance_type"] == name
    assert "image_id" not in template, "the node group's release version says which"
    assert template["metadata_options"]["http_tokens"] == "required"


def test_placement_only_if_there_is_a_group() -> None:
    without = accelerated_template(pool(), {}, security_groups=["sg-1"])
    assert "placement" not in without
    with_group = accelerated_template(pool(), {}, security_groups=["sg-1"], placement_group="g")
    assert with_group["placement"] == {"group_name": "g"}


def test_everything_that_ec2_makes_carries_the_stack_s_tags() -> None:
    template = accelerated_template(pool(), {"shardyard:stack": "x"}, security_groups=["sg-1"])
    found = {one["resource_type"]: one["tags"] for one in template["tag_specifications"]}
    assert set(found) == {"instance", "volume", "network-interface"}
    assert all(tags == {"shardyard:stack": "x"} for tags in found.values())


def test_root_disks_are_encrypted_and_go_with_the_node() -> None:
    for template in (
        accelerated_template(pool(), {}, security_groups=["sg-1"]),
        system_template(SystemNodeGroupSettings(nodes=SystemNodes(min=1, desired=1, max=1)), {}),
    ):
        (disk,) = template["block_device_mappings"]
        assert disk["device_name"] == "/dev/xvda"
        assert disk["ebs"]["encrypted"] == "true"
        assert disk["ebs"]["delete_on_termination"] == "true"


def test_system_template_leaves_the_network_to_eks() -> None:
    template = system_template(SystemNodeGroupSettings(nodes=SystemNodes(min=1, desired=1, max=1)), {})
    assert not {"network_interfaces", "vpc_security_group_ids", "instance_type", "image_id"} & set(template)


def test_labels_and_taints() -> None:
    labels = node_labels("p5", pool(labels={"team": "a"}))
    assert labels == {
        "shardyard.dev/pool": "p5",
        "nvidia.com/gpu.present": "true",
        "vpc.amazonaws.com/efa.present": "true",
        "team": "a",
    }
    assert "vpc.amazonaws.com/efa.present" not in node_labels("p5", pool(efa=Efa(interfaces=0)))
    assert node_taints(pool(taints=(Taint(key="team"),))) == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"},
        {"key": "team", "value": "", "effect": "NO_SCHEDULE"},
    ]


@pytest.mark.parametrize(("disks", "storage"), [(8, {"strategy": "RAID0"}), (0, None)])
def test_user_data_is_what_nodeadm_reads(disks: int, storage: dict[str, str] | None) -> None:
    message = email.message_from_bytes(
        base64.b64decode(user_data(max_pods=110, instance_store_volumes=disks))
    )
    assert message.get_content_type() == "multipart/mixed"
    part = message.get_payload(0)
    assert part.get_content_type() == "application/node.eks.aws"  # type: ignore[union-attr]
    config = json.loads(part.get_payload())  # type: ignore[union-attr, arg-type]
    assert config == node_config(max_pods=110, instance_store_volumes=disks)
    assert config["apiVersion"] == "node.eks.aws/v1alpha1"
    assert config["spec"]["kubelet"]["config"]["maxPods"] == 110
    assert config["spec"].get("instance", {}).get("localStorage") == storage
