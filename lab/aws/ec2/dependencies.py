"""What may not be deleted yet: the DependencyViolations that moto doesn't know."""

from __future__ import annotations

from collections.abc import Iterator

from moto.ec2.models import EC2Backend
from moto.ec2.models.elastic_network_interfaces import NetworkInterface
from moto.ec2.models.security_groups import SecurityGroup

from lab.aws.actions import ApiError, Call, before
from lab.aws.ec2.tags import backend

GONE = ("deleted", "terminated", "failed")


def _violation(message: str) -> ApiError:
    return ApiError("DependencyViolation", message)


def _interfaces_with(ec2: EC2Backend, group_id: str) -> Iterator[NetworkInterface]:
    for interface in ec2.enis.values():
        if any(group.id == group_id for group in interface.group_set):
            yield interface


def _refers_to(group: SecurityGroup, group_id: str) -> bool:
    return any(
        rule.source_group.get("GroupId") == group_id for rule in [*group.ingress_rules, *group.egress_rules]
    )


@before("ec2", "DeleteSubnet")
def subnet_without_interfaces(call: Call) -> None:
    subnet = call["SubnetId"]
    if any(interface.subnet.id == subnet for interface in backend(call).enis.values()):
        raise _violation(f"The subnet '{subnet}' has dependencies and cannot be deleted.")


@before("ec2", "DeleteSecurityGroup")
def group_unused(call: Call) -> None:
    ec2, group_id = backend(call), call.get("GroupId", "")
    group = ec2.get_security_group_from_id(group_id)
    if group is None:
        return
    if group.name == "default":
        raise ApiError(
            "CannotDelete", f'the specified group: "{group_id}" name: "default" cannot be deleted by a user'
        )
    others = (other for groups in ec2.groups.values() for other in groups.values() if other.id != group_id)
    if any(_interfaces_with(ec2, group_id)) or any(_refers_to(other, group_id) for other in others):
        raise _violation(f"resource {group_id} has a dependent object")


@before("ec2", "DeleteVpc")
def vpc_empty(call: Call) -> None:
    """moto looks at subnets, route tables and VPN gateways; AWS at everything else as well."""
    ec2, vpc = backend(call), call["VpcId"]
    holders = [
        any(interface.subnet.vpc_id == vpc for interface in ec2.enis.values()),
        any(gateway.vpc and gateway.vpc.id == vpc for gateway in ec2.internet_gateways.values()),
        any(nat.vpc_id == vpc and nat.state not in GONE for nat in ec2.nat_gateways.values()),
        any(one.vpc_id == vpc and one.state not in GONE for one in ec2.vpc_end_points.values()),
        any(group.name != "default" for group in ec2.groups.get(vpc, {}).values()),
    ]
    if any(holders):
        raise _violation(f"The vpc '{vpc}' has dependencies and cannot be deleted.")


@before("ec2", "DetachInternetGateway")
def no_public_addresses(call: Call) -> None:
    vpc = call["VpcId"]
    if any(one.public_ip and one.subnet.vpc_id == vpc for one in backend(call).enis.values()):
        raise _violation(
            f"Network {vpc} has some mapped public address(es). Please unmap those public address(es) "
            "before detaching the gateway."
        )


@before("ec2", "ReleaseAddress")
def address_unused(call: Call) -> None:
    for address in backend(call).addresses:
        if address.allocation_id == call.get("AllocationId") and address.association_id:
            raise ApiError("InvalidIPAddress.InUse", f"Address {address.public_ip} is in use.")


@before("ec2", "DeleteNetworkInterface", "DetachNetworkInterface")
def interface_is_the_callers(call: Call) -> None:
    ec2 = backend(call)
    for interface in ec2.enis.values():
        named = interface.id == call.get("NetworkInterfaceId")
        attached = interface.attachment_id and interface.attachment_id == call.get("AttachmentId")
        if (named or attached) and interface.requester_managed:
            raise ApiError(
                "OperationNotPermitted",
                "You do not have permission to manage the requester-managed interface.",
            )
        if named and interface.status == "in-use":
            raise ApiError(
                "InvalidParameterValue", f"Network interface '{interface.id}' is currently in use."
            )
