"""Reservations, what can be launched where, and which interfaces it may have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.aws.support import REGION, Emulator, Network, refused
from tests.waiting import eventually

ZONE = f"{REGION}a"


def reserve(ec2: Any, count: int = 1, **given: Any) -> str:
    settings = {
        "InstanceType": "p5.48xlarge",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": ZONE,
        "InstanceMatchCriteria": "targeted",
    }
    answer = ec2.create_capacity_reservation(**(settings | given), InstanceCount=count)
    return str(answer["CapacityReservation"]["CapacityReservationId"])


def described(ec2: Any, reservation: str) -> dict[str, Any]:
    [found] = ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])["CapacityReservations"]
    return dict(found)


def target(reservation: str) -> dict[str, Any]:
    return {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": reservation},
    }


def instance(subnet: str, count: int = 1, **given: Any) -> dict[str, Any]:
    return {"InstanceType": "p5.48xlarge", "SubnetId": subnet, "MinCount": count, "MaxCount": count} | given


@pytest.fixture
def reservation(ec2: Any) -> Any:
    made = reserve(ec2, count=2)
    yield made
    ec2.cancel_capacity_reservation(CapacityReservationId=made)


def test_a_reservation_is_described_as_it_was_asked_for(ec2: Any) -> None:
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "pool", "Value": "p5"}]}]
    made = reserve(ec2, count=16, TagSpecifications=tags)
    ec2.create_tags(Resources=[made], Tags=[{"Key": "owner", "Value": "me"}])
    found = described(ec2, made)
    assert (found["State"], found["TotalInstanceCount"], found["AvailableInstanceCount"]) == (
        "active",
        16,
        16,
    )
    assert (found["AvailabilityZoneId"], found["EndDateType"]) == ("use1-az6", "unlimited")
    assert {tag["Key"]: tag["Value"] for tag in found["Tags"]} == {"pool": "p5", "owner": "me"}
    ec2.modify_capacity_reservation(CapacityReservationId=made, InstanceCount=3)
    assert described(ec2, made)["TotalInstanceCount"] == 3
    ec2.cancel_capacity_reservation(CapacityReservationId=made)
    assert described(ec2, made)["State"] == "cancelled"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"InstanceType": "p4de.24xlarge"}, "Unsupported"),  # offered in use1-az4 and az6: not in zone b
        ({"InstanceType": "p9.huge"}, "InvalidInstanceType"),
        ({"AvailabilityZone": "us-east-1z"}, "InvalidParameterValue"),
        ({"InstancePlatform": "Linux"}, "InvalidParameterValue"),
        ({"EndDateType": "limited"}, "InvalidParameterCombination"),
        (
            {"PlacementGroupArn": "arn:aws:ec2:us-east-1:123456789012:placement-group/no"},
            "InvalidPlacementGroup.Unknown",
        ),
    ],
)
def test_impossible_reservations_are_refused(ec2: Any, given: dict[str, Any], code: str) -> None:
    settings = {
        "InstanceType": "p5.48xlarge",
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": f"{REGION}b",
    }
    assert refused(ec2.create_capacity_reservation, **(settings | given), InstanceCount=1) == code


def test_accelerated_types_are_not_to_be_had_outside_reservations(
    ec2: Any, network: Network, reservation: str
) -> None:
    code = refused(ec2.run_instances, **instance(network.subnets[0]))
    assert code == "InsufficientInstanceCapacity"
    spot = {"InstanceMarketOptions": {"MarketType": "spot"}}
    assert (
        refused(ec2.run_instances, **instance(network.subnets[0], **spot)) == "InsufficientInstanceCapacity"
    )


def test_capacity_outside_reservations_can_be_granted(emulator: Emulator, ec2: Any, network: Network) -> None:
    grant = {"region": REGION, "zone": ZONE, "type": "p4d.24xlarge", "instances": 1}
    emulator.console("capacity", grant)
    wanted = instance(network.subnets[0], InstanceType="p4d.24xlarge")
    ec2.run_instances(**wanted)
    assert refused(ec2.run_instances, **wanted) == "InsufficientInstanceCapacity"


def test_a_reservation_serves_as_many_instances_as_it_has(
    ec2: Any, network: Network, reservation: str
) -> None:
    wanted = instance(network.subnets[0], count=2, CapacityReservationSpecification=target(reservation))
    launched = ec2.run_instances(**wanted)["Instances"]
    assert {one["CapacityReservationId"] for one in launched} == {reservation}
    assert described(ec2, reservation)["AvailableInstanceCount"] == 0
    assert refused(ec2.run_instances, **wanted) == "ReservationCapacityExceeded"
    below = {"CapacityReservationId": reservation, "InstanceCount": 1}
    assert refused(ec2.modify_capacity_reservation, **below) == "InvalidParameterValue"
    ec2.terminate_instances(InstanceIds=[one["InstanceId"] for one in launched])
    assert described(ec2, reservation)["AvailableInstanceCount"] == 2


def test_a_reservation_serves_its_own_zone_and_type_only(
    ec2: Any, network: Network, reservation: str
) -> None:
    wanted = {"CapacityReservationSpecification": target(reservation)}
    elsewhere = instance(network.subnets[1], **wanted)
    assert refused(ec2.run_instances, **elsewhere) == "ReservationCapacityExceeded"
    other = instance(network.subnets[0], **wanted, InstanceType="p4d.24xlarge")
    assert refused(ec2.run_instances, **other) == "ReservationCapacityExceeded"


def test_a_placement_group_and_a_reservation_outside_it_do_not_go_together(
    ec2: Any, network: Network, reservation: str
) -> None:
    group = ec2.create_placement_group(GroupName=f"group-{network.vpc}", Strategy="cluster")["PlacementGroup"]
    placed = {"Placement": {"GroupName": group["GroupName"]}}
    wanted = instance(network.subnets[0], **placed, CapacityReservationSpecification=target(reservation))
    assert refused(ec2.run_instances, **wanted) == "ReservationCapacityExceeded"
    inside = reserve(ec2, PlacementGroupArn=group["GroupArn"])
    wanted["CapacityReservationSpecification"] = target(inside)
    [launched] = ec2.run_instances(**wanted)["Instances"]
    assert launched["Placement"]["GroupName"] == group["GroupName"]
    assert refused(ec2.delete_placement_group, GroupName=group["GroupName"]) == "InvalidPlacementGroup.InUse"
    ec2.terminate_instances(InstanceIds=[launched["InstanceId"]])
    ec2.delete_placement_group(GroupName=group["GroupName"])
    ec2.cancel_capacity_reservation(CapacityReservationId=inside)


def test_a_capacity_block_market_needs_a_capacity_block(ec2: Any, network: Network, reservation: str) -> None:
    block = {"InstanceMarketOptions": {"MarketType": "capacity-block"}}
    wanted = instance(network.subnets[0], **block, CapacityReservationSpecification=target(reservation))
    assert refused(ec2.run_instances, **wanted) == "InvalidParameterCombination"


def test_reservations_can_be_targeted_through_a_resource_group(
    emulator: Emulator, ec2: Any, network: Network, reservation: str
) -> None:
    groups = emulator.client("resource-groups")
    name = f"group-{network.vpc}"
    arn = f"arn:aws:resource-groups:{REGION}:123456789012:group/{name}"
    member = described(ec2, reservation)["CapacityReservationArn"]
    groups.group_resources(Group=name, ResourceArns=[member])
    assert [one["ResourceArn"] for one in groups.list_group_resources(Group=name)["ResourceIdentifiers"]] == [
        member
    ]
    through = {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationResourceGroupArn": arn},
    }
    wanted = instance(network.subnets[0], CapacityReservationSpecification=through)
    [launched] = ec2.run_instances(**wanted)["Instances"]
    assert launched["CapacityReservationId"] == reservation
    ec2.terminate_instances(InstanceIds=[launched["InstanceId"]])


def test_reservations_count_against_the_vcpu_quota(emulator: Emulator, ec2: Any) -> None:
    quotas = emulator.client("service-quotas")
    code = "L-417A185B"
    before = quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"]
    emulator.console("quotas", {"region": REGION, "code": code, "value": 192})
    try:
        assert quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]["Value"] == 192
        asked = {"InstanceType": "p5.48xlarge", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": ZONE}
        assert refused(ec2.create_capacity_reservation, **asked, InstanceCount=2) == "VcpuLimitExceeded"
    finally:
        emulator.console("quotas", {"region": REGION, "code": code, "value": int(before)})


def test_a_capacity_block_is_bought_ahead_and_serves_from_its_start(ec2: Any, network: Network) -> None:
    wanted = {"InstanceType": "p5.48xlarge", "InstanceCount": 2, "CapacityDurationHours": 48}
    assert (
        refused(ec2.describe_capacity_block_offerings, **(wanted | {"InstanceCount": 3}))
        == "InvalidParameterValue"
    )
    offers = ec2.describe_capacity_block_offerings(**wanted)["CapacityBlockOfferings"]
    offer = next(one for one in offers if one["AvailabilityZone"] == ZONE)
    bought = ec2.purchase_capacity_block(
        CapacityBlockOfferingId=offer["CapacityBlockOfferingId"], InstancePlatform="Linux/UNIX"
    )["CapacityReservation"]
    block = bought["CapacityReservationId"]
    assert (bought["ReservationType"], bought["State"]) == ("capacity-block", "scheduled")
    assert refused(ec2.cancel_capacity_reservation, CapacityReservationId=block) == "InvalidParameterValue"
    market = {"InstanceMarketOptions": {"MarketType": "capacity-block"}}
    early = instance(network.subnets[0], **market, CapacityReservationSpecification=target(block))
    assert refused(ec2.run_instances, **early) == "ReservationCapacityExceeded"


def efa_interfaces(cards: int) -> list[dict[str, Any]]:
    """AWS's present layout: an ordinary primary interface, and EFA without addresses on every card."""
    primary: dict[str, Any] = {"NetworkCardIndex": 0, "DeviceIndex": 0}
    efa = [
        {"NetworkCardIndex": card, "DeviceIndex": int(card == 0), "InterfaceType": "efa-only"}
        for card in range(cards)
    ]
    return [primary, *efa]


def template(ec2: Any, network: Network, name: str, **data: Any) -> str:
    made = ec2.create_launch_template(LaunchTemplateName=f"{name}-{network.vpc}", LaunchTemplateData=data)
    return str(made["LaunchTemplate"]["LaunchTemplateId"])


def test_a_p5_has_an_efa_interface_on_each_of_its_cards(ec2: Any, network: Network, reservation: str) -> None:
    interfaces = efa_interfaces(32)
    interfaces[0]["Groups"] = [network.group]
    made = template(
        ec2,
        network,
        "p5",
        InstanceType="p5.48xlarge",
        NetworkInterfaces=interfaces,
        CapacityReservationSpecification=target(reservation),
    )
    free = ec2.describe_subnets(SubnetIds=network.subnets[:1])["Subnets"][0]["AvailableIpAddressCount"]
    launched = ec2.run_instances(
        LaunchTemplate={"LaunchTemplateId": made}, SubnetId=network.subnets[0], MinCount=1, MaxCount=1
    )["Instances"][0]
    found = launched["NetworkInterfaces"]
    assert len(found) == 33
    assert {one["Attachment"]["NetworkCardIndex"] for one in found if one["InterfaceType"] == "efa-only"} == {
        *range(32)
    }
    assert sum("PrivateIpAddress" in one for one in found) == 1
    left = ec2.describe_subnets(SubnetIds=network.subnets[:1])["Subnets"][0]["AvailableIpAddressCount"]
    assert left == free - 1
    ec2.terminate_instances(InstanceIds=[launched["InstanceId"]])
    ec2.delete_subnet(SubnetId=network.subnets[0])  # every interface went with the instance


SECOND_EFA = {"NetworkCardIndex": 0, "DeviceIndex": 1, "InterfaceType": "efa"}


def more_efa(cards: list[dict[str, Any]]) -> list[dict[str, Any]]:
    extra = [{"NetworkCardIndex": card, "DeviceIndex": 1, "InterfaceType": "efa"} for card in (1, 2)]
    return [*cards, *extra]


@pytest.mark.parametrize(
    ("type_name", "change", "code"),
    [
        ("p4de.24xlarge", lambda cards: cards, "AttachmentLimitExceeded"),  # 32 cards on a type with 4
        (
            "p5.48xlarge",
            lambda cards: [*cards, {"NetworkCardIndex": 1, "DeviceIndex": 2}],
            "AttachmentLimitExceeded",
        ),
        ("p5.48xlarge", more_efa, "AttachmentLimitExceeded"),
        ("p5.48xlarge", lambda cards: [*cards, cards[1]], "InvalidParameterValue"),
        ("p5.48xlarge", lambda cards: cards[1:], "InvalidParameterValue"),
        (
            "p5.48xlarge",
            lambda cards: [cards[0] | {"AssociatePublicIpAddress": True}, cards[1]],
            "InvalidParameterCombination",
        ),
        ("m5.24xlarge", lambda cards: [cards[0], SECOND_EFA], "Unsupported"),
    ],
)
def test_interfaces_that_a_type_cannot_have_are_refused(
    ec2: Any, network: Network, type_name: str, change: Any, code: str
) -> None:
    interfaces = change(efa_interfaces(32))
    interfaces[0] = interfaces[0] | {"SubnetId": network.subnets[0]}
    wanted = {"InstanceType": type_name, "NetworkInterfaces": interfaces, "MinCount": 1, "MaxCount": 1}
    assert refused(ec2.run_instances, **wanted) == code


def test_a_group_of_another_network_is_refused(ec2: Any, network: Network) -> None:
    other = ec2.create_vpc(CidrBlock="10.255.0.0/16")["Vpc"]["VpcId"]
    group = ec2.create_security_group(GroupName="x", Description="x", VpcId=other)["GroupId"]
    wanted = instance(network.subnets[0], InstanceType="m5.large", SecurityGroupIds=[group])
    assert refused(ec2.run_instances, **wanted) == "InvalidParameter"


def test_a_subnet_runs_out_of_addresses(ec2: Any) -> None:
    vpc = ec2.create_vpc(CidrBlock="10.254.0.0/24")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.254.0.0/28", AvailabilityZone=ZONE)["Subnet"][
        "SubnetId"
    ]
    launched = ec2.run_instances(**instance(subnet, count=11, InstanceType="m5.large"))["Instances"]
    addresses = {one["PrivateIpAddress"] for one in launched}
    assert addresses == {f"10.254.0.{host}" for host in range(4, 15)}
    wanted = instance(subnet, InstanceType="m5.large")
    assert refused(ec2.run_instances, **wanted) == "InsufficientFreeAddressesInSubnet"
    ec2.terminate_instances(InstanceIds=[launched[3]["InstanceId"]])
    [replaced] = ec2.run_instances(**wanted)["Instances"]
    assert replaced["PrivateIpAddress"] == launched[3]["PrivateIpAddress"]


def test_a_template_keeps_what_it_was_given_and_its_tags_apart(ec2: Any, network: Network) -> None:
    own = [{"ResourceType": "launch-template", "Tags": [{"Key": "stack", "Value": "local"}]}]
    data = {
        "ImageId": "ami-1",
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "b"}]}],
    }
    name = f"tags-{network.vpc}"
    made = ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data, TagSpecifications=own)
    template_id = made["LaunchTemplate"]["LaunchTemplateId"]
    ec2.create_launch_template_version(
        LaunchTemplateId=template_id, SourceVersion="1", LaunchTemplateData={"ImageId": "ami-2"}
    )
    ec2.create_tags(Resources=[template_id], Tags=[{"Key": "more", "Value": "1"}])
    first, second = ec2.describe_launch_template_versions(LaunchTemplateId=template_id)[
        "LaunchTemplateVersions"
    ]
    assert first["LaunchTemplateData"] == data
    assert second["LaunchTemplateData"] == data | {"ImageId": "ami-2"}
    [described] = ec2.describe_launch_templates(LaunchTemplateIds=[template_id])["LaunchTemplates"]
    assert {tag["Key"] for tag in described["Tags"]} == {"stack", "more"}
    assert (described["DefaultVersionNumber"], described["LatestVersionNumber"]) == (1, 2)


def test_root_volumes_go_with_their_instance(ec2: Any, network: Network) -> None:
    disk = [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 500, "VolumeType": "gp3"}}]
    wanted = instance(network.subnets[0], InstanceType="m5.large", BlockDeviceMappings=disk)
    [launched] = ec2.run_instances(**wanted)["Instances"]
    volume = launched["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]

    def volumes() -> list[Any]:
        return list(ec2.describe_volumes(Filters=[{"Name": "volume-id", "Values": [volume]}])["Volumes"])

    assert [one["Size"] for one in volumes()] == [500]
    ec2.terminate_instances(InstanceIds=[launched["InstanceId"]])
    eventually(lambda: not volumes())
