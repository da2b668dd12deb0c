"""Which network interfaces a node gets, and on which card."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.instances import InstanceType


@dataclass(frozen=True)
class Interface:
    """One interface of a launch template. `kind` is EC2's InterfaceType."""

    card: int
    device: int
    kind: str
    """interface (ENA), efa (ENA and EFA, takes an address) or efa-only (no address)."""


def interfaces(instance: InstanceType, efa: int, layout: str) -> tuple[Interface, ...]:
    """The interfaces for `efa` EFA devices, card 0 first.

    `efa-only` is the layout that the EC2 guide gives today: card 0 has the ENA interface and, as its
    second device, an efa-only one; every other card has one efa-only interface as device 0.
    `efa` is the older one, still valid: card 0's only interface is ENA and EFA at once, every other
    card has one as device 1. A device index that counts up with the card is refused by EC2.

    Raises ValueError for more EFA interfaces than the type takes.
    """
    if not 0 <= efa <= instance.efa:
        raise ValueError(f"a {instance.name} takes 0 to {instance.efa} EFA interfaces, not {efa}")
    if layout == "efa":
        first = "efa" if efa and instance.efa_on_card_0 else "interface"
        head, device, kind = [Interface(0, 0, first)], 1, "efa"
        left = efa - (first == "efa")
    else:
        head, device, kind = [Interface(0, 0, "interface")], 0, "efa-only"
        if efa and instance.efa_on_card_0:
            head.append(Interface(0, 1, "efa-only"))
        left = efa - (len(head) - 1)
    return (*head, *(Interface(card, device, kind) for card in range(1, left + 1)))
