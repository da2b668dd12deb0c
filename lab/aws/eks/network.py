"""A cluster's place in its VPC: subnets, security groups, and the interfaces of the control plane."""

from __future__ import annotations

from typing import Any

from moto.ec2.models import ec2_backends
from moto.ec2.models.subnets import Subnet

from lab.aws.actions import ApiError, Call
from lab.aws.ec2.interfaces import create_owned, remove_owned
from lab.aws.ec2.tags import backend
from lab.aws.eks.state import Cluster

UNSUPPORTED_ZONES = ("use1-az3", "usw1-az2", "cac1-az3")
"""EKS puts no control plane there (EKS user guide, "Subnet requirements for clusters")."""


def resources_vpc_config(call: Call, name: str, present: dict[str, Any] | None = None) -> dict[str, Any]:
    """resourcesVpcConfig in full, from what the call gives and what the cluster has."""
    given = call["resourcesVpcConfig"]
    present = present or {}
    subnet_ids = given.get("subnetIds", present.get("subnetIds", []))
    subnets = _subnets(call, name, subnet_ids)
    vpc_id = subnets[0].vpc_id
    groups = given.get("securityGroupIds", present.get("securityGroupIds", []))
    for group_id in groups:
        group = backend(call).get_security_group_from_id(group_id)
        if group is None or group.vpc_id != vpc_id:
            raise ApiError(
                "InvalidParameterException",
                f"Security group(s) [{group_id}] are not in the same VPC as the subnets.",
            )
    public = given.get("endpointPublicAccess", present.get("endpointPublicAccess", True))
    private = given.get("endpointPrivateAccess", present.get("endpointPrivateAccess", False))
    if not public and not private:
        raise ApiError(
            "InvalidParameterException", "Private and public endpoint access cannot both be false."
        )
    cidrs = given.get("publicAccessCidrs", present.get("publicAccessCidrs"))
    return {
        "subnetIds": list(subnet_ids),
        "securityGroupIds": list(groups),
        "clusterSecurityGroupId": present.get("clusterSecurityGroupId"),
        "vpcId": vpc_id,
        "endpointPublicAccess": public,
        "endpointPrivateAccess": private,
        "publicAccessCidrs": (cidrs or ["0.0.0.0/0"]) if public else [],
    }


def _subnets(call: Call, name: str, subnet_ids: list[str]) -> list[Subnet]:
    known = {subnet.id: subnet for subnet in backend(call).describe_subnets()}
    for subnet_id in subnet_ids:
        if subnet_id not in known:
            raise ApiError(
                "InvalidParameterException", f"The subnet ID '{subnet_id}' does not exist", clusterName=name
            )
    subnets = [known[subnet_id] for subnet_id in subnet_ids]
    for subnet in subnets:
        if subnet.availability_zone_id in UNSUPPORTED_ZONES:
            zones = [
                zone.name
                for zone in backend(call).describe_availability_zones()
                if zone.zone_id not in UNSUPPORTED_ZONES
            ]
            raise ApiError(
                "UnsupportedAvailabilityZoneException",
                f"Cannot create cluster '{name}' because {subnet.availability_zone}, the targeted Availability Zone, "
                "does not currently have sufficient capacity to support the cluster. Retry and choose from these "
                f"Availability Zones: {', '.join(zones)}",
                clusterName=name,
                validZones=zones,
            )
    if len({subnet.availability_zone for subnet in subnets}) < 2:
        raise ApiError(
            "InvalidParameterException",
            "Subnets specified must be in at least two different AZs",
            clusterName=name,
        )
    if len({subnet.vpc_id for subnet in subnets}) > 1:
        raise ApiError("InvalidParameterException", "Subnets must be in the same VPC", clusterName=name)
    return subnets


def attach(cluster: Cluster) -> None:
    """Make the cluster's security group, and an interface in two of its subnets."""
    ec2 = ec2_backends[cluster.account][cluster.region]
    group = ec2.create_security_group(
        f"eks-cluster-sg-{cluster.name}-{cluster.oidc_id[:10]}",
        "EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, as well "
        "as any managed workloads.",
        vpc_id=cluster.vpc["vpcId"],
        tags={
            "Name": f"eks-cluster-sg-{cluster.name}",
            "aws:eks:cluster-name": cluster.name,
            f"kubernetes.io/cluster/{cluster.name}": "owned",
        },
    )
    itself = [{"GroupId": group.id}]
    ec2.authorize_security_group_ingress(
        group.id, ip_protocol="-1", from_port=None, to_port=None, ip_ranges=[], source_groups=itself
    )
    ec2.authorize_security_group_egress(
        group.id, ip_protocol="-1", from_port=None, to_port=None, ip_ranges=[], source_groups=itself
    )
    cluster.vpc["clusterSecurityGroupId"] = group.id
    groups = [group.id, *cluster.vpc["securityGroupIds"]]
    by_zone = {ec2.get_subnet(one).availability_zone: one for one in cluster.vpc["subnetIds"]}
    for subnet_id in list(by_zone.values())[:2]:
        create_owned(
            cluster.account, cluster.region, subnet_id, f"Amazon EKS {cluster.name}", "amazon-eks", groups
        )


def detach(cluster: Cluster) -> None:
    """Remove them again. The group stays if somebody else's interface or rule still uses it, as on AWS."""
    ec2 = ec2_backends[cluster.account][cluster.region]
    owned = [one.id for one in ec2.enis.values() if one.description == f"Amazon EKS {cluster.name}"]
    remove_owned(cluster.account, cluster.region, owned)
    group_id = cluster.vpc["clusterSecurityGroupId"]
    in_use = any(group.id == group_id for one in ec2.enis.values() for group in one.group_set)
    if not in_use and ec2.get_security_group_from_id(group_id):
        ec2.delete_security_group(group_id=group_id)
