"""Network interfaces: addresses from the subnet, network cards, and those that other services own."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.elastic_network_interfaces import Attachment, NetworkInterface
from moto.ec2.models.instances import Instance
from moto.ec2.models.subnets import Subnet

from lab.aws.actions import ApiError

RESERVED = 4
"""AWS keeps the first four addresses of a subnet (and the last one, its broadcast address)."""


def free_address(ec2: EC2Backend, subnet: Subnet) -> str:
    """The lowest free address of a subnet. Raises InsufficientFreeAddressesInSubnet."""
    taken = {
        int(IPv4Address(address["PrivateIpAddress"]))
        for interface in ec2.enis.values()
        if interface.subnet.id == subnet.id
        for address in interface.private_ip_addresses
    }
    network = IPv4Network(subnet.cidr_block)
    first = int(network.network_address)
    for number in range(first + RESERVED, first + network.num_addresses - 1):
        if number not in taken:
            return str(IPv4Address(number))
    raise ApiError(
        "InsufficientFreeAddressesInSubnet",
        f"The specified subnet does not have enough free addresses to satisfy the request. ({subnet.id})",
    )


_moto_create = EC2Backend.create_network_interface


def _create_network_interface(
    self: EC2Backend, subnet: Subnet | str, private_ip_address: Any = None, *arguments: Any, **options: Any
) -> NetworkInterface:
    """moto gives an interface any address, from another subnet too; EC2 gives it the subnet's own.

    An efa-only interface has none.
    """
    place = self.get_subnet(subnet) if isinstance(subnet, str) else subnet
    address = private_ip_address
    if isinstance(address, list):
        address = address[0] if address else None
    kind = options.pop("interface_type", "interface")
    if kind == "efa-only":
        interface = _moto_create(self, place, place.cidr_block.partition("/")[0], *arguments, **options)
        interface.private_ip_address, interface.private_ip_addresses = None, []
    else:
        inside = address and IPv4Address(address) in IPv4Network(place.cidr_block)
        if not inside and not options.get("private_ip_addresses"):
            address = free_address(self, place)
        interface = _moto_create(self, place, address, *arguments, **options)
    interface.interface_type = kind
    return interface


def create_owned(
    account: str,
    region: str,
    subnet_id: str,
    description: str,
    owner: str,
    groups: Iterable[str] = (),
    kind: str = "interface",
) -> str:
    """Make an interface that a service owns, such as "amazon-eks"; returns its id.

    It is in use, and only its owner removes it: until then it holds its subnet and security groups.
    """
    ec2 = ec2_backends[account][region]
    interface = ec2.create_network_interface(subnet_id, None, group_ids=list(groups), description=description)
    mark_owned(interface, owner, kind)
    return str(interface.id)


def mark_owned(interface: NetworkInterface, owner: str, kind: str = "interface") -> None:
    interface.requester_managed = True
    interface.requester_id = owner
    interface.status = "in-use"
    interface.interface_type = kind


def remove_owned(account: str, region: str, ids: Iterable[str]) -> None:
    ec2 = ec2_backends[account][region]
    for interface_id in ids:
        ec2.enis.pop(interface_id, None)
        ec2.tags.pop(interface_id, None)


def _prep_nics(
    self: Instance,
    nic_spec: list[dict[str, Any]],
    private_ip: str | None = None,
    associate_public_ip: bool | None = None,
    security_groups: list[Any] | None = None,
    ipv6_address_count: int | None = None,
) -> None:
    """Make an instance's interfaces, several network cards included.

    moto keeps them by device index, so that the second card's would push out the first card's; here
    the key is unique. Addresses come from `free_address`.
    """
    self.nics = {}
    specifications = nic_spec or [{"DeviceIndex": 0, "AssociatePublicIpAddress": associate_public_ip}]
    shared = [group.id for group in security_groups or []]
    for index, spec in enumerate(sorted(specifications, key=_position)):
        card, device = _position(spec)
        if existing := spec.get("NetworkInterfaceId"):
            interface = self.ec2_backend.get_network_interface(existing)
        else:
            interface = self.ec2_backend.create_network_interface(
                spec.get("SubnetId") or self.subnet_id,
                spec.get("PrivateIpAddress") or (private_ip if index == 0 else None),
                device_index=device,
                public_ip_auto_assign=bool(spec.get("AssociatePublicIpAddress")),
                group_ids=[*spec.get("Groups", []), *shared],
                delete_on_termination=spec.get("DeleteOnTermination", True),
                description=spec.get("Description"),
                interface_type=spec.get("InterfaceType", "interface"),
            )
        self.attach_eni(interface, index)
        interface.device_index, interface.network_card_index = device, card
    self._private_ips = {self.nics[0].private_ip_address}


def _position(spec: dict[str, Any]) -> tuple[int, int]:
    return int(spec.get("NetworkCardIndex", 0)), int(spec.get("DeviceIndex", 0))


_moto_attachment = Attachment.__init__


def _attachment(self: Attachment, interface: NetworkInterface) -> None:
    _moto_attachment(self, interface)
    self.network_card_index = getattr(interface, "network_card_index", 0)


EC2Backend.create_network_interface = _create_network_interface
Instance.prep_nics = _prep_nics
Attachment.__init__ = _attachment
