"""Launching instances, for RunInstances and for node groups alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moto.ec2.models import EC2Backend
from moto.ec2.models.instances import Reservation
from moto.ec2.models.subnets import Subnet
from moto.ec2.utils import convert_tag_spec

from lab.aws.actions import ApiError, Call, action
from lab.aws.ec2.capacity import LaunchRequest, check_capacity
from lab.aws.ec2.instance_types import InstanceType, instance_type, interfaces_of_card
from lab.aws.ec2.tags import backend
from lab.aws.world import World

ROOT_DEVICES = ("/dev/xvda", "/dev/sda1")
EFA = ("efa", "efa-only")


@action("ec2", "RunInstances")
def run_instances(call: Call) -> Reservation:
    ec2 = backend(call)
    data = {**template_data(ec2, call.get("LaunchTemplate")), **call.parameters}
    return launch(call.world, ec2, data, call.get("MaxCount", 1))


def template_data(ec2: EC2Backend, reference: Mapping[str, Any] | None) -> dict[str, Any]:
    """The data of the template's version that a reference (id or name, version) stands for."""
    if not reference:
        return {}
    if template_id := reference.get("LaunchTemplateId"):
        template = ec2.get_launch_template(template_id)
    else:
        template = ec2.get_launch_template_by_name(reference["LaunchTemplateName"])
    version = template.get_version(reference.get("Version") or "$Default")
    return {name: value for name, value in version.data.items() if value is not None}


def launch(
    world: World, ec2: EC2Backend, data: Mapping[str, Any], count: int, tags: Mapping[str, str] | None = None
) -> Reservation:
    """Launch `count` instances or none. `data` has the members that RunInstances and templates share.

    The subnet is in SubnetId, or in the first interface. Raises what EC2 raises.
    """
    interfaces: list[dict[str, Any]] = [dict(one) for one in data.get("NetworkInterfaces", [])]
    subnet_id = data.get("SubnetId") or next(
        (one["SubnetId"] for one in interfaces if "SubnetId" in one), None
    )
    if not subnet_id:
        raise ApiError("MissingInput", "No default VPC for this user: name a subnet.")
    subnet, facts = ec2.get_subnet(subnet_id), instance_type(data.get("InstanceType", "m1.small"))
    check_interfaces(facts, interfaces)
    group_ids = list(data.get("SecurityGroupIds", []))
    _check_groups(
        ec2, subnet, [*group_ids, *(group for one in interfaces for group in one.get("Groups", []))]
    )
    request = LaunchRequest.of(data, facts, subnet, count)
    reservation_id = check_capacity(world, ec2, request)
    specifications = convert_tag_spec(data.get("TagSpecifications", []))
    specifications["instance"] = {**specifications.get("instance", {}), **(tags or {})}
    launched = ec2.run_instances(
        data.get("ImageId", ""),
        count,
        data.get("UserData"),
        [],
        instance_type=facts.name,
        is_instance_type_default=False,
        region_name=ec2.region_name,
        placement=None,
        subnet_id=subnet_id,
        security_group_ids=group_ids,
        nics=interfaces,
        key_name=data.get("KeyName"),
        tags=specifications,
        ebs_optimized=data.get("EbsOptimized", False),
        metadata_options=data.get("MetadataOptions", {}),
        client_token=data.get("ClientToken"),
        **_block_devices(data.get("BlockDeviceMappings", [])),
    )
    for instance in launched.instances:
        instance.capacity_reservation_id = reservation_id or None
        instance.lifecycle = request.market or None
        instance.instance_lifecycle = request.market or None
        instance.placement.group_name = request.placement_group
    return launched


def _block_devices(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The option for moto: without mappings it makes a root volume of its own.

    The root volume goes with its instance unless the mapping says otherwise (so do the images' defaults).
    """
    volumes = [one for one in mappings if one.get("Ebs")]
    if not volumes:
        return {}
    return {
        "block_device_mappings": [
            {**one, "Ebs": {"DeleteOnTermination": one["DeviceName"] in ROOT_DEVICES, **one["Ebs"]}}
            for one in volumes
        ]
    }


def check_interfaces(facts: InstanceType, interfaces: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a layout of interfaces that the type can't have."""
    if not interfaces:
        return
    places = [(one.get("NetworkCardIndex", 0), one.get("DeviceIndex", 0)) for one in interfaces]
    if (0, 0) not in places:
        raise ApiError(
            "InvalidParameterValue", "The primary interface is device 0 of network card 0; it is missing."
        )
    if len(set(places)) < len(places):
        raise ApiError("InvalidParameterValue", "Each network interface requires a unique device index.")
    for card, device in places:
        if device >= interfaces_of_card(facts.name, card):
            raise ApiError(
                "AttachmentLimitExceeded",
                f"Device index {device} on network card {card} exceeds what {facts.name} has: {facts.network_cards} "
                f"network cards, {interfaces_of_card(facts.name, card)} interfaces on this one.",
            )
    if len(interfaces) > facts.interfaces:
        message = f"Interface count {len(interfaces)} exceeds the limit for {facts.name}."
        raise ApiError("AttachmentLimitExceeded", message)
    efa = sum(one.get("InterfaceType") in EFA for one in interfaces)
    if efa and not facts.efa_interfaces:
        raise ApiError("Unsupported", f"EFA interfaces are not supported on {facts.name}.")
    if efa > facts.efa_interfaces:
        raise ApiError(
            "AttachmentLimitExceeded",
            f"EFA interface count {efa} exceeds the limit of {facts.efa_interfaces} for {facts.name}.",
        )
    if len(interfaces) > 1 and any(one.get("AssociatePublicIpAddress") for one in interfaces):
        raise ApiError(
            "InvalidParameterCombination",
            "The associatePublicIPAddress parameter cannot be specified when launching with multiple network "
            "interfaces.",
        )


def _check_groups(ec2: EC2Backend, subnet: Subnet, group_ids: Sequence[str]) -> None:
    for group_id in group_ids:
        group = ec2.get_security_group_from_id(group_id)
        if group is None:
            raise ApiError("InvalidGroup.NotFound", f"The security group '{group_id}' does not exist")
        if group.vpc_id != subnet.vpc_id:
            raise ApiError(
                "InvalidParameter",
                f"Security group {group_id} and subnet {subnet.id} belong to different networks.",
            )
