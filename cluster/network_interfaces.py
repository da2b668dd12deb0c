"""Which network interfaces a node gets, and on which network card."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.instances import InstanceType


@dataclass(frozen=True)
class NetworkInterface:
    """One interface of a launch template, in EC2's words."""

    network_card_index: int
    device_index: int
    interface_type: str
    """interface (ENA), efa (ENA and EFA, has an address) or efa-only (has no address)."""


def network_interfaces(
    instance: InstanceType, efa_interfaces: int, interface_type: str
) -> tuple[NetworkInterface, ...]:
    """The interfaces of a node with `efa_interfaces` EFA devices of type `efa-only` or `efa`, card 0 first.

    `efa-only` is what the EC2 guide recommends: card 0 has the ENA interface and, as its second
    device, an efa-only one; every other card has one efa-only interface as device 0.
    `efa` is older and still valid: card 0's only interface is ENA and EFA at once, and every other
    card has one as device 1. EC2 refuses a device index that counts up with the card.

    Raises ValueError for more EFA interfaces than the instance type supports.
    """
    if not 0 <= efa_interfaces <= instance.max_efa_interfaces:
        raise ValueError(
            f"a {instance.name} supports 0 to {instance.max_efa_interfaces} EFA interfaces, not {efa_interfaces}"
        )
    if interface_type == "efa":
        primary = "efa" if efa_interfaces and instance.efa_on_card_0 else "interface"
        card_0, device_index = [NetworkInterface(0, 0, primary)], 1
        remaining = efa_interfaces - (primary == "efa")
    else:
        card_0, device_index = [NetworkInterface(0, 0, "interface")], 0
        if efa_interfaces and instance.efa_on_card_0:
            card_0.append(NetworkInterface(0, 1, "efa-only"))
        remaining = efa_interfaces - (len(card_0) - 1)
    other_cards = range(1, remaining + 1)
    return (*card_0, *(NetworkInterface(card, device_index, interface_type) for card in other_cards))
