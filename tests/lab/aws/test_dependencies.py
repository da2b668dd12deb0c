"""What AWS refuses to delete, and that it lets go in the end."""

from __future__ import annotations

import json
from typing import Any

from tests.lab.aws.support import Network, refused
from tests.waiting import eventually


def test_overlapping_subnets_are_refused(ec2: Any, network: Network) -> None:
    block = ec2.describe_subnets(SubnetIds=network.subnets[:1])["Subnets"][0]["CidrBlock"]
    code = refused(ec2.create_subnet, VpcId=network.vpc, CidrBlock=block.replace("/24", "/25"))
    assert code == "InvalidSubnet.Conflict"


def test_a_new_subnet_is_private_and_no_default(ec2: Any, network: Network) -> None:
    subnet = ec2.describe_subnets(SubnetIds=network.subnets[:1])["Subnets"][0]
    assert not subnet["DefaultForAz"]
    assert not subnet["MapPublicIpOnLaunch"]
    assert subnet["AvailableIpAddressCount"] == 256 - 5


def test_an_interface_holds_its_subnet_and_group(ec2: Any, network: Network) -> None:
    interface = ec2.create_network_interface(SubnetId=network.subnets[0], Groups=[network.group])
    assert refused(ec2.delete_subnet, SubnetId=network.subnets[0]) == "DependencyViolation"
    assert refused(ec2.delete_security_group, GroupId=network.group) == "DependencyViolation"
    ec2.delete_network_interface(NetworkInterfaceId=interface["NetworkInterface"]["NetworkInterfaceId"])
    ec2.delete_subnet(SubnetId=network.subnets[0])
    ec2.delete_security_group(GroupId=network.group)


def test_a_rule_of_another_group_holds_a_group(ec2: Any, network: Network) -> None:
    other = ec2.create_security_group(GroupName="other", Description="other", VpcId=network.vpc)["GroupId"]
    rule = [
        {"IpProtocol": "tcp", "FromPort": 1, "ToPort": 2, "UserIdGroupPairs": [{"GroupId": network.group}]}
    ]
    ec2.authorize_security_group_ingress(GroupId=other, IpPermissions=rule)
    assert refused(ec2.delete_security_group, GroupId=network.group) == "DependencyViolation"
    ec2.delete_security_group(GroupId=other)
    ec2.delete_security_group(GroupId=network.group)


def test_the_default_group_stays(ec2: Any, network: Network) -> None:
    groups = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [network.vpc]}])[
        "SecurityGroups"
    ]
    default = next(one["GroupId"] for one in groups if one["GroupName"] == "default")
    assert refused(ec2.delete_security_group, GroupId=default) == "CannotDelete"


def test_a_vpc_goes_only_when_it_is_empty(ec2: Any, network: Network) -> None:
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=network.vpc)
    for subnet in network.subnets:
        ec2.delete_subnet(SubnetId=subnet)
    assert refused(ec2.delete_vpc, VpcId=network.vpc) == "DependencyViolation"
    ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=network.vpc)
    assert refused(ec2.delete_vpc, VpcId=network.vpc) == "DependencyViolation"
    ec2.delete_security_group(GroupId=network.group)
    ec2.delete_vpc(VpcId=network.vpc)


def test_a_nat_gateway_holds_subnet_address_and_internet_gateway_until_it_is_deleted(
    ec2: Any, network: Network
) -> None:
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=network.vpc)
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    created = ec2.create_nat_gateway(SubnetId=network.subnets[0], AllocationId=address)["NatGateway"]
    nat = created["NatGatewayId"]

    def state() -> str:
        return str(ec2.describe_nat_gateways(NatGatewayIds=[nat])["NatGateways"][0]["State"])

    assert created["State"] == "pending"
    eventually(lambda: state() == "available")
    assert refused(ec2.release_address, AllocationId=address) == "InvalidIPAddress.InUse"
    assert (
        refused(ec2.detach_internet_gateway, InternetGatewayId=gateway, VpcId=network.vpc)
        == "DependencyViolation"
    )
    ec2.delete_nat_gateway(NatGatewayId=nat)
    assert state() == "deleting"
    assert refused(ec2.delete_subnet, SubnetId=network.subnets[0]) == "DependencyViolation"
    eventually(lambda: state() == "deleted")
    ec2.release_address(AllocationId=address)
    ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=network.vpc)
    ec2.delete_subnet(SubnetId=network.subnets[0])


def test_a_nat_gateway_shows_its_address(ec2: Any, network: Network) -> None:
    address = ec2.allocate_address(Domain="vpc")
    nat = ec2.create_nat_gateway(SubnetId=network.subnets[0], AllocationId=address["AllocationId"])
    nat_id = nat["NatGateway"]["NatGatewayId"]
    found = ec2.describe_nat_gateways(NatGatewayIds=[nat_id])["NatGateways"][0]
    [shown] = found["NatGatewayAddresses"]
    held = ec2.describe_addresses(AllocationIds=[address["AllocationId"]])["Addresses"][0]
    interface = ec2.describe_network_interfaces(NetworkInterfaceIds=[held["NetworkInterfaceId"]])
    assert found["AvailabilityMode"] == "zonal"
    assert found["ConnectivityType"] == "public"
    assert shown == {
        "AllocationId": address["AllocationId"],
        "AssociationId": held["AssociationId"],
        "IsPrimary": True,
        "NetworkInterfaceId": held["NetworkInterfaceId"],
        "PrivateIp": interface["NetworkInterfaces"][0]["PrivateIpAddress"],
        "PublicIp": address["PublicIp"],
        "Status": "succeeded",
    }


def test_an_address_serves_one_nat_gateway(ec2: Any, network: Network) -> None:
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    ec2.create_nat_gateway(SubnetId=network.subnets[0], AllocationId=address)
    code = refused(ec2.create_nat_gateway, SubnetId=network.subnets[1], AllocationId=address)
    assert code == "Resource.AlreadyAssociated"
    assert refused(ec2.create_nat_gateway, SubnetId=network.subnets[1]) == "MissingParameter"


def test_an_interface_endpoint_holds_its_subnets_and_groups(ec2: Any, network: Network) -> None:
    endpoint = ec2.create_vpc_endpoint(
        VpcId=network.vpc,
        ServiceName="com.amazonaws.us-east-1.ecr.api",
        VpcEndpointType="Interface",
        SubnetIds=network.subnets[:1],
        SecurityGroupIds=[network.group],
    )["VpcEndpoint"]["VpcEndpointId"]

    def described() -> list[dict[str, Any]]:
        wanted = [{"Name": "vpc-id", "Values": [network.vpc]}]
        return list(ec2.describe_vpc_endpoints(Filters=wanted)["VpcEndpoints"])

    eventually(lambda: described()[0]["State"] == "available")
    ec2.modify_vpc_endpoint(VpcEndpointId=endpoint, AddSubnetIds=network.subnets[1:])
    interfaces = described()[0]["NetworkInterfaceIds"]
    owned = ec2.describe_network_interfaces(NetworkInterfaceIds=interfaces)["NetworkInterfaces"]
    assert {one["SubnetId"] for one in owned} == set(network.subnets)
    assert all(one["RequesterManaged"] and one["Groups"][0]["GroupId"] == network.group for one in owned)
    assert refused(ec2.delete_network_interface, NetworkInterfaceId=interfaces[0]) == "OperationNotPermitted"
    assert refused(ec2.delete_security_group, GroupId=network.group) == "DependencyViolation"
    ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])
    assert refused(ec2.delete_subnet, SubnetId=network.subnets[1]) == "DependencyViolation"
    eventually(lambda: not described())
    ec2.delete_subnet(SubnetId=network.subnets[1])
    ec2.delete_security_group(GroupId=network.group)


def test_a_gateway_endpoint_takes_its_routes_along(ec2: Any, network: Network) -> None:
    table = ec2.create_route_table(VpcId=network.vpc)["RouteTable"]["RouteTableId"]
    endpoint = ec2.create_vpc_endpoint(
        VpcId=network.vpc, ServiceName="com.amazonaws.us-east-1.s3", RouteTableIds=[table]
    )["VpcEndpoint"]["VpcEndpointId"]

    def routes() -> set[str]:
        found = ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["Routes"]
        return {route.get("GatewayId", "") for route in found}

    assert endpoint in routes()
    ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])
    eventually(lambda: endpoint not in routes())


def test_endpoints_show_names_and_policy(ec2: Any, network: Network) -> None:
    def created(service: str, **given: Any) -> dict[str, Any]:
        made = ec2.create_vpc_endpoint(
            VpcId=network.vpc, ServiceName=f"com.amazonaws.us-east-1.{service}", **given
        )
        identity = made["VpcEndpoint"]["VpcEndpointId"]
        return dict(ec2.describe_vpc_endpoints(VpcEndpointIds=[identity])["VpcEndpoints"][0])

    gateway = created("s3", VpcEndpointType="Gateway")
    assert not gateway["PrivateDnsEnabled"]
    assert gateway["DnsEntries"] == []
    assert gateway["DnsOptions"] == {"PrivateDnsOnlyForInboundResolverEndpoint": False}
    interface = created("ecr.api", VpcEndpointType="Interface", SubnetIds=network.subnets)
    assert interface["PrivateDnsEnabled"]
    names = [entry["DnsName"] for entry in interface["DnsEntries"]]
    start, end = interface["VpcEndpointId"], ".ecr.api.us-east-1.vpce.amazonaws.com"
    assert all(name.startswith(start) and name.endswith(end) for name in names[:3])
    assert [zone for name in names if (zone := name.removesuffix(end)[-10:]) in ("us-east-1a", "us-east-1b")]
    assert names[3:] == ["api.ecr.us-east-1.amazonaws.com"]
    assert interface["DnsOptions"]["DnsRecordIpType"] == "ipv4"
    for endpoint in (gateway, interface):
        assert (endpoint["IpAddressType"], endpoint["RequesterManaged"]) == ("ipv4", False)
        assert json.loads(endpoint["PolicyDocument"])["Statement"][0]["Action"] == "*"
    ec2.modify_vpc_endpoint(VpcEndpointId=start, PrivateDnsEnabled=False, RemoveSubnetIds=network.subnets[1:])
    [changed] = ec2.describe_vpc_endpoints(VpcEndpointIds=[start])["VpcEndpoints"]
    assert [entry["DnsName"] for entry in changed["DnsEntries"]] == names[:2]
