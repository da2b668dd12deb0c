"""Rules for addresses: how the VPC is cut up, and how many addresses a node uses."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network
from math import ceil

from cluster.instances import InstanceType

AWS_RESERVED_ADDRESSES = 5
"""Addresses of every subnet that AWS reserves (VPC guide, "Subnet sizing")."""
CONTROL_PLANE_ADDRESSES = 16
"""Free addresses that the EKS guide recommends in a control plane's subnet, for upgrades."""
PREFIX_ADDRESSES = 16
"""Addresses of one delegated prefix, a /28."""
SMALLEST, LARGEST = 22, 16
"""Prefix lengths of a VPC that this plan can cut up."""


@dataclass(frozen=True)
class AddressPlan:
    """Subnets by zone, in the order of the zones."""

    private: tuple[IPv4Network, ...]
    public: tuple[IPv4Network, ...]


def plan(cidr: str, zones: int) -> AddressPlan:
    """Cut the VPC into quarters: the first holds a small public subnet (/28) for each zone, and each
    of the other three is one zone's private subnet.

    The same for every number of zones, so that a zone added later moves no subnet.
    Raises ValueError if the network is too small, too large, or has more than three zones.
    """
    network = IPv4Network(cidr)
    if not LARGEST <= network.prefixlen <= SMALLEST:
        raise ValueError(
            f"{cidr} is a /{network.prefixlen}; a VPC here is between /{LARGEST} and /{SMALLEST}"
        )
    if not 1 <= zones <= 3:
        raise ValueError(f"{zones} zones; one to three are supported")
    front, *quarters = network.subnets(prefixlen_diff=2)
    small = front.subnets(new_prefix=28)
    return AddressPlan(private=tuple(quarters[:zones]), public=tuple(next(small) for _ in range(zones)))


def pod_interfaces(instance: InstanceType, efa_interfaces: int, interface_type: str) -> int:
    """Interfaces of card 0 whose addresses pods can have. An efa-only interface there has none."""
    on_card_0 = interface_type == "efa-only" and efa_interfaces > 0 and instance.efa_on_card_0
    return instance.interfaces_on_card_0 - int(on_card_0)


def pods_addressable(instance: InstanceType, interfaces: int, prefixes: bool) -> int:
    """The most pods that the VPC CNI can give an address to on one node.

    Source: the max-pods calculator of awslabs/amazon-eks-ami, interfaces × (addresses - 1) + 2; the 2
    are pods on the host's network. With prefix delegation every slot holds 16 addresses.
    """
    slots = interfaces * (instance.addresses_per_interface - 1)
    return slots * (PREFIX_ADDRESSES if prefixes else 1) + 2


def node_addresses(
    instance: InstanceType, *, max_pods: int, efa_interfaces: int, interface_type: str, prefixes: bool
) -> int:
    """The most addresses that one node uses in its subnet.

    These are its interfaces' own, one for each further `efa` interface, and what the VPC CNI holds for
    pods: enough prefixes and one warm one, or whole interfaces and one warm one.
    """
    per_interface = instance.addresses_per_interface
    available = pod_interfaces(instance, efa_interfaces, interface_type)
    if prefixes:
        blocks = ceil(max_pods / PREFIX_ADDRESSES) + 1
        interfaces = min(ceil(blocks / (per_interface - 1)), available)
        for_pods = interfaces + PREFIX_ADDRESSES * min(blocks, interfaces * (per_interface - 1))
    else:
        interfaces = min(ceil(max_pods / (per_interface - 1)) + 1, available)
        for_pods = interfaces * per_interface
    for_efa = max(efa_interfaces - 1, 0) if interface_type == "efa" else 0
    return for_pods + for_efa


def file_system_addresses(capacity_gib: int) -> int:
    """Interfaces of an FSx for Lustre file system, counted generously: one for metadata and one for
    each 1.2 TiB. (FSx guide: every file server has an interface of its own.)"""
    return 1 + ceil(capacity_gib / 1200)


def usable(network: IPv4Network) -> int:
    """Addresses of a subnet that interfaces can have."""
    return network.num_addresses - AWS_RESERVED_ADDRESSES
