"""The account's vCPU quotas for on-demand instances, which reservations use up as well."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from moto.ec2.models import EC2Backend

from lab.aws.actions import Call, action, refuse
from lab.aws.ec2.instance_types import InstanceType, instance_type
from lab.aws.world import World

VCPU_QUOTAS = {
    "L-1216C47A": ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "acdhimrtz"),
    "L-DB2E81BA": ("Running On-Demand G and VT instances", "gv"),
    "L-417A185B": ("Running On-Demand P instances", "p"),
}
"""By quota code: its name and the first letters of the instance families that it covers."""
DEFAULT_VCPUS = 192 * 1024
"""Room for 1,024 p5.48xlarge."""


@dataclass
class Quotas:
    """What `POST /_lab/quotas` set, by quota code."""

    vcpus: dict[str, int] = field(default_factory=dict)


def quota_of(type_name: str) -> str:
    """The code of the quota that an instance type counts against; empty if none is kept here."""
    return next((code for code, (_, letters) in VCPU_QUOTAS.items() if type_name[0] in letters), "")


def limit(world: World, region: str, code: str) -> int:
    return world.state(Quotas, region).vcpus.get(code, DEFAULT_VCPUS)


def in_use(world: World, ec2: EC2Backend, code: str) -> int:
    """vCPUs of reserved capacity, used or not, and of instances outside reservations."""
    from lab.aws.ec2.capacity_reservations import CapacityReservations

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
        raise refuse(
            "VcpuLimitExceeded",
            f"You have requested more vCPU capacity than your current vCPU limit of {have} allows for the "
            "instance bucket that the specified instance type belongs to. Please visit "
            "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
        )


def _described(call: Call, code: str) -> dict[str, Any]:
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": call.arn("servicequotas", f"ec2/{code}"),
        "QuotaCode": code,
        "QuotaName": VCPU_QUOTAS[code][0],
        "Value": float(limit(call.world, call.region, code)),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


@action("servicequotas", "GetServiceQuota")
def get_service_quota(call: Call) -> dict[str, Any]:
    if call["ServiceCode"] != "ec2" or call["QuotaCode"] not in VCPU_QUOTAS:
        raise refuse("NoSuchResourceException", "The request failed because the specified quota does not exist.")
    return {"Quota": _described(call, call["QuotaCode"])}


@action("servicequotas", "ListServiceQuotas")
def list_service_quotas(call: Call) -> dict[str, Any]:
    return {"Quotas": [_described(call, code) for code in VCPU_QUOTAS] if call["ServiceCode"] == "ec2" else []}
