"""The account's vCPU quotas for on-demand instances, which reservations use up as well."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from moto.ec2.models import EC2Backend

from lab.aws.actions import ApiError, Call, action
from lab.aws.ec2.instance_types import InstanceType, instance_type
from lab.aws.ec2.models import CapacityReservations
from lab.aws.world import World

VCPU_QUOTAS = {
    "L-1216C47A": ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "acdhimrtz"),
    "L-DB2E81BA": ("Running On-Demand G and VT instances", "gv"),
    "L-417A185B": ("Running On-Demand P instances", "p"),
}
"""By quota code: its name and the first letters of the instance families that it covers."""
DEFAULT_VCPUS = 192 * 1024
"""Room for 1,024 p5.48xlarge."""
OTHER_QUOTAS = {
    "L-0263D0A3": ("ec2", "EC2-VPC Elastic IPs", 5),
    "L-F678F1CE": ("vpc", "VPCs per Region", 5),
    "L-FE5A380F": ("vpc", "NAT gateways per Availability Zone", 5),
    "L-1194D53C": ("eks", "Clusters", 100),
}
"""By quota code: service, name and AWS's default; told, but not enforced."""


@dataclass
class Quotas:
    """What `POST /_lab/quotas` set, by quota code."""

    values: dict[str, int] = field(default_factory=dict)


def quota_of(type_name: str) -> str:
    """The code of the quota that an instance type counts against; empty if none is kept here."""
    return next((code for code, (_, letters) in VCPU_QUOTAS.items() if type_name[0] in letters), "")


def limit(world: World, region: str, code: str) -> int:
    return world.state(Quotas, region).values.get(code, DEFAULT_VCPUS)


def in_use(world: World, ec2: EC2Backend, code: str) -> int:
    """vCPUs of reserved capacity, used or not, and of instances outside reservations."""
    reservations = world.state(CapacityReservations, ec2.region_name).reservations
    held = {one.id: one for one in reservations.values() if one.state == "active" and one.kind == "default"}
    total = sum(
        instance_type(one.instance_type).cpus * one.count
        for one in held.values()
        if quota_of(one.instance_type) == code
    )
    for instance in ec2.all_running_instances():
        inside = getattr(instance, "capacity_reservation_id", None)
        if inside not in held and quota_of(instance.instance_type) == code and instance.lifecycle != "spot":
            total += instance_type(instance.instance_type).cpus
    return total


def check_quota(world: World, ec2: EC2Backend, facts: InstanceType, count: int) -> None:
    """Raises VcpuLimitExceeded if `count` more of the type don't fit."""
    code = quota_of(facts.name)
    have, want = limit(world, ec2.region_name, code), in_use(world, ec2, code) + facts.cpus * count
    if want > have:
        raise ApiError(
            "VcpuLimitExceeded",
            f"You have requested more vCPU capacity than your current vCPU limit of {have} allows for the "
            "instance bucket that the specified instance type belongs to. Please visit "
            "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
        )


def _described(call: Call, code: str) -> dict[str, Any]:
    if code in VCPU_QUOTAS:
        service, name, default = "ec2", VCPU_QUOTAS[code][0], DEFAULT_VCPUS
    else:
        service, name, default = OTHER_QUOTAS[code]
    return {
        "ServiceCode": service,
        "ServiceName": service,
        "QuotaArn": call.arn("servicequotas", f"{service}/{code}"),
        "QuotaCode": code,
        "QuotaName": name,
        "Value": float(call.world.state(Quotas, call.region).values.get(code, default)),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _of_service(call: Call) -> dict[str, dict[str, Any]]:
    found = {code: _described(call, code) for code in [*VCPU_QUOTAS, *OTHER_QUOTAS]}
    return {code: one for code, one in found.items() if one["ServiceCode"] == call["ServiceCode"]}


@action("servicequotas", "GetServiceQuota")
def get_service_quota(call: Call) -> dict[str, Any]:
    found = _of_service(call).get(call["QuotaCode"])
    if found is None:
        raise ApiError(
            "NoSuchResourceException", "The request failed because the specified quota does not exist."
        )
    return {"Quota": found}


@action("servicequotas", "ListServiceQuotas")
def list_service_quotas(call: Call) -> dict[str, Any]:
    return {"Quotas": list(_of_service(call).values())}
