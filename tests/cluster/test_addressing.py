"""The plan of subnets, and what a node takes of them."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import addressing
from cluster.instances import ACCELERATED, INSTANCE_TYPES, InstanceType

NETWORKS = st.builds(
    lambda number, length: str(IPv4Network((number, 32)).supernet(new_prefix=length)),
    st.integers(0x0A000000, 0x0AFFFFFF),
    st.integers(addressing.LARGEST, addressing.SMALLEST),
)
TYPES = st.sampled_from(list(INSTANCE_TYPES.values()))


@given(NETWORKS, st.integers(1, 3))
def test_subnets_lie_inside_and_apart(cidr: str, zones: int) -> None:
    plan = addressing.plan(cidr, zones)
    subnets = [*plan.private, *plan.public]
    assert len(plan.private) == len(plan.public) == zones
    assert all(subnet.subnet_of(IPv4Network(cidr)) for subnet in subnets)
    assert not any(a.overlaps(b) for a, b in combinations(subnets, 2))
    assert all(subnet.prefixlen <= 28 for subnet in subnets), "the smallest that EC2 makes"


@given(NETWORKS)
def test_a_new_zone_moves_no_subnet(cidr: str) -> None:
    two, three = addressing.plan(cidr, 2), addressing.plan(cidr, 3)
    assert three.private[:2] == two.private
    assert three.public[:2] == two.public


@pytest.mark.parametrize(
    ("cidr", "zones"), [("10.0.0.0/15", 2), ("10.0.0.0/23", 2), ("10.0.0.0/16", 4), ("10.0.0.0/16", 0)]
)
def test_what_can_not_be_cut_up(cidr: str, zones: int) -> None:
    with pytest.raises(ValueError, match=r"between|supported"):
        addressing.plan(cidr, zones)


@given(TYPES, st.integers(10, 250), st.booleans())
def test_a_node_s_addresses_are_enough_for_its_pods(
    instance: InstanceType, pods: int, prefixes: bool
) -> None:
    efa = instance.max_efa_interfaces
    interfaces = addressing.pod_interfaces(instance, efa, "efa-only")
    taken = addressing.node_addresses(
        instance, max_pods=pods, efa_interfaces=efa, interface_type="efa-only", prefixes=prefixes
    )
    addressable = min(pods, addressing.pods_addressable(instance, interfaces, prefixes) - 2)
    assert taken > addressable


@given(st.sampled_from(ACCELERATED), st.integers(10, 110))
def test_efa_interfaces_with_addresses_cost_one_each(name: str, pods: int) -> None:
    instance = INSTANCE_TYPES[name]
    common = {"max_pods": pods, "efa_interfaces": instance.max_efa_interfaces, "prefixes": True}
    new = addressing.node_addresses(instance, interface_type="efa-only", **common)  # type: ignore[arg-type]
    old = addressing.node_addresses(instance, interface_type="efa", **common)  # type: ignore[arg-type]
    assert old - new == instance.max_efa_interfaces - 1, "the first one is the primary interface itself"


def test_p5_has_one_interface_for_pods() -> None:
    p5 = INSTANCE_TYPES["p5.48xlarge"]
    assert addressing.pod_interfaces(p5, 32, "efa-only") == 1
    assert addressing.pods_addressable(p5, 1, prefixes=False) == 51
    assert addressing.pods_addressable(p5, 1, prefixes=True) == 786


def test_numbers_by_hand() -> None:
    """110 pods are seven prefixes and one warm one, 128 addresses, and the interface's own."""
    p5 = INSTANCE_TYPES["p5.48xlarge"]
    assert (
        addressing.node_addresses(
            p5, max_pods=110, efa_interfaces=32, interface_type="efa-only", prefixes=True
        )
        == 129
    )
    assert (
        addressing.node_addresses(p5, max_pods=110, efa_interfaces=32, interface_type="efa", prefixes=True)
        == 160
    )
    m7i = INSTANCE_TYPES["m7i.large"]
    assert (
        addressing.node_addresses(
            m7i, max_pods=29, efa_interfaces=0, interface_type="efa-only", prefixes=False
        )
        == 30
    )
