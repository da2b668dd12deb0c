"""What a file system for Lustre may look like (FSx for Lustre user guide)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moto.ec2.models.security_groups import SecurityGroupRule

from lab.aws.actions import ApiError, Call
from lab.aws.ec2.tags import backend

VERSIONS = ("2.10", "2.12", "2.15")
DEPLOYMENTS = ("SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2")
THROUGHPUTS = {"PERSISTENT_1": (50, 100, 200), "PERSISTENT_2": (125, 250, 500, 1000)}
"""MB/s for each TiB of SSD."""
EFA_CAPACITY = {125: 38_400, 250: 19_200, 500: 9_600, 1000: 4_800}
"""GiB that an EFA-enabled file system has at least, by throughput."""
PORTS = (988, 1018, 1023)
"""Lustre listens on 988 and 1018–1023."""


def _bad(message: str) -> ApiError:
    return ApiError("BadRequest", message)


def check_capacity(gib: int | None, deployment: str) -> None:
    step = 3600 if deployment == "SCRATCH_1" else 2400
    smallest = (1200, 2400)
    if gib is None or (gib not in smallest and gib % step):
        raise _bad(f"Storage capacity must be 1200 GiB, 2400 GiB or a multiple of {step} GiB, not {gib}.")


def check_configuration(call: Call, given: Mapping[str, Any], deployment: str) -> str:
    """Deployment, throughput, version, EFA and imports agree; returns the version."""
    if deployment not in DEPLOYMENTS:
        raise _bad(f"DeploymentType {deployment} is none of {', '.join(DEPLOYMENTS)}.")
    version: str = call.get("FileSystemTypeVersion", "2.15" if deployment == "PERSISTENT_2" else "2.10")
    if version not in VERSIONS:
        raise _bad(f"FileSystemTypeVersion {version} is none of {', '.join(VERSIONS)}.")
    throughput = given.get("PerUnitStorageThroughput")
    allowed = THROUGHPUTS.get(deployment)
    if allowed and throughput not in allowed:
        raise _bad(f"PerUnitStorageThroughput of {deployment} is one of {allowed}, not {throughput}.")
    if not allowed and throughput:
        raise _bad(f"PerUnitStorageThroughput can't be given for {deployment}.")
    if deployment == "PERSISTENT_2":
        if version == "2.10":
            raise _bad("PERSISTENT_2 needs version 2.12 or later.")
        if given.get("ImportPath") or given.get("ExportPath"):
            raise _bad("PERSISTENT_2 takes no import or export path: create a data repository association.")
    elif given.get("MetadataConfiguration") or given.get("EfaEnabled"):
        raise _bad("MetadataConfiguration and EFA are for PERSISTENT_2 only.")
    if given.get("EfaEnabled"):
        if not given.get("MetadataConfiguration"):
            raise _bad("An EFA-enabled file system needs a MetadataConfiguration.")
        smallest = EFA_CAPACITY[given["PerUnitStorageThroughput"]]
        if call["StorageCapacity"] < smallest:
            raise _bad(f"An EFA-enabled file system with {throughput} MB/s/TiB has at least {smallest} GiB.")
    return version


def check_groups(call: Call, vpc_id: str) -> list[str]:
    """Each security group is of the VPC, and together they let Lustre's traffic in and out."""
    ec2 = backend(call)
    ids = list(call.get("SecurityGroupIds", [])) or [ec2.get_default_security_group(vpc_id).id]
    groups = [ec2.get_security_group_from_id(one) for one in ids]
    for one, group in zip(ids, groups, strict=True):
        if group is None or group.vpc_id != vpc_id:
            raise ApiError(
                "InvalidNetworkSettings",
                f"The security group {one} does not exist in {vpc_id}.",
                InvalidSecurityGroupId=one,
            )
    for direction in ("ingress_rules", "egress_rules"):
        rules = [rule for group in groups for rule in getattr(group, direction)]
        for port in PORTS:
            if not any(_covers(rule, port) for rule in rules):
                raise ApiError(
                    "InvalidNetworkSettings",
                    "The file system cannot be created because the default security group in the subnet provided or "
                    f"the provided security groups do not permit Lustre LNET network traffic on port {port}",
                    InvalidSecurityGroupId=ids[0],
                )
    return ids


def _covers(rule: SecurityGroupRule, port: int) -> bool:
    if rule.ip_protocol == "-1":
        return True
    return bool(rule.ip_protocol == "tcp" and int(rule.from_port) <= port <= int(rule.to_port))
