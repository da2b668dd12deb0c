"""Network interfaces of every type, for every number of EFA devices and both layouts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.instances import ACCELERATED, INSTANCE_TYPES, InstanceType
from cluster.network_interfaces import NetworkInterface, network_interfaces

TYPES = st.sampled_from([INSTANCE_TYPES[name] for name in ACCELERATED])
LAYOUTS = st.sampled_from(["efa-only", "efa"])


@st.composite
def wishes(draw: st.DrawFn) -> tuple[InstanceType, int, str]:
    instance = draw(TYPES)
    return instance, draw(st.integers(0, instance.max_efa_interfaces)), draw(LAYOUTS)


@given(wishes())
def test_what_ec2_accepts(wish: tuple[InstanceType, int, str]) -> None:
    instance, efa, layout = wish
    found = network_interfaces(instance, efa, layout)
    assert sum(one.interface_type in ("efa", "efa-only") for one in found) == efa
    places = [(one.network_card_index, one.device_index) for one in found]
    assert len(set(places)) == len(places), "one interface for each place"
    assert found[0] == NetworkInterface(0, 0, found[0].interface_type)
    assert found[0].interface_type in ("interface", "efa"), "the primary interface has an address"
    assert {one.network_card_index for one in found} == set(
        range(max(one.network_card_index for one in found) + 1)
    ), "no card is skipped"
    assert max(one.network_card_index for one in found) < instance.network_cards
    assert all(one.device_index in (0, 1) for one in found), (
        "a device index that counts up with the card is refused"
    )
    on_card_0 = [one for one in found if one.network_card_index == 0]
    assert len(on_card_0) <= instance.interfaces_on_card_0
    if not instance.efa_on_card_0:
        assert [one.interface_type for one in on_card_0] == ["interface"]


@given(wishes())
def test_only_the_first_interface_takes_an_address_in_the_new_layout(
    wish: tuple[InstanceType, int, str],
) -> None:
    instance, efa, _ = wish
    with_address = [
        one for one in network_interfaces(instance, efa, "efa-only") if one.interface_type != "efa-only"
    ]
    assert with_address == [NetworkInterface(0, 0, "interface")]


@given(TYPES, st.integers(-3, 40), LAYOUTS)
def test_more_than_the_type_takes_is_refused(instance: InstanceType, efa: int, layout: str) -> None:
    if 0 <= efa <= instance.max_efa_interfaces:
        return
    with pytest.raises(ValueError, match=f"supports 0 to {instance.max_efa_interfaces}"):
        network_interfaces(instance, efa, layout)


def test_p5_as_the_ec2_guide_has_it() -> None:
    found = network_interfaces(INSTANCE_TYPES["p5.48xlarge"], 32, "efa-only")
    assert found[:3] == (
        NetworkInterface(0, 0, "interface"),
        NetworkInterface(0, 1, "efa-only"),
        NetworkInterface(1, 0, "efa-only"),
    )
    assert Counter(one.interface_type for one in found) == {"interface": 1, "efa-only": 32}


def test_p4d_in_the_older_layout() -> None:
    assert network_interfaces(INSTANCE_TYPES["p4d.24xlarge"], 4, "efa") == (
        NetworkInterface(0, 0, "efa"),
        NetworkInterface(1, 1, "efa"),
        NetworkInterface(2, 1, "efa"),
        NetworkInterface(3, 1, "efa"),
    )


def test_b300_has_no_efa_on_card_0() -> None:
    found = network_interfaces(INSTANCE_TYPES["p6-b300.48xlarge"], 16, "efa-only")
    assert [one.network_card_index for one in found] == list(range(17))
