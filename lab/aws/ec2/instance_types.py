"""Facts about instance types and where they are offered, from the data that moto ships."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from lab.aws.actions import ApiError


@dataclass(frozen=True)
class InstanceType:
    name: str
    cpus: int
    memory_mib: int
    gpus: int
    network_cards: int
    interfaces: int
    """The most interfaces of an instance, all cards together."""
    efa_interfaces: int
    """0 if the type has no EFA."""
    addresses_per_interface: int
    instance_store_gb: int
    """All local volumes together; 0 if the type has none."""


@cache
def instance_type(name: str) -> InstanceType:
    """Raises InvalidInstanceType, as EC2 does, for a type that doesn't exist."""
    facts: dict[str, Any] | None = INSTANCE_TYPES.get(name)
    if facts is None:
        raise ApiError("InvalidInstanceType", f"The following supplied instance types do not exist: [{name}]")
    network = facts.get("NetworkInfo", {})
    return InstanceType(
        name=name,
        cpus=facts["VCpuInfo"]["DefaultVCpus"],
        memory_mib=facts["MemoryInfo"]["SizeInMiB"],
        gpus=sum(gpu["Count"] for gpu in facts.get("GpuInfo", {}).get("Gpus", [])),
        network_cards=network.get("MaximumNetworkCards", 1),
        interfaces=network.get("MaximumNetworkInterfaces", 1),
        efa_interfaces=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        addresses_per_interface=network.get("Ipv4AddressesPerInterface", 1),
        instance_store_gb=facts.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
    )


def interfaces_of_card(name: str, card: int) -> int:
    """How many interfaces a network card takes; 0 if the type has no such card."""
    cards = INSTANCE_TYPES[name].get("NetworkInfo", {}).get("NetworkCards", [])
    return next((one["MaximumNetworkInterfaces"] for one in cards if one["NetworkCardIndex"] == card), 0)


def offered(region: str, zone_id: str, name: str) -> bool:
    """Whether a type can be launched in a zone, named by its id (use1-az4)."""
    offerings = INSTANCE_TYPE_OFFERINGS["availability-zone-id"].get(region, [])
    return any(one["Location"] == zone_id and one["InstanceType"] == name for one in offerings)
