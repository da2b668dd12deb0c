"""EC2, network: VPCs, subnets, gateways and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.providers.aws.operation import Operation, search
from lab.providers.aws.resources.ec2_common import ec2_tags, where
from lab.providers.aws.table import Call, Property, Resource, Status, Step, inputs, out


def _attribute(operation_name: str, id_member: str, name: str, member: str) -> Step:
    """EC2 changes most attributes one at a time: {"VpcId": …, "EnableDnsSupport": {"Value": true}}."""

    def modify(operation: Operation) -> None:
        value = bool(operation.value(name))
        operation.call(operation_name, **{id_member: operation.id, member: {"Value": value}})

    return Step([name], modify)


def _vpc_attributes(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    def attribute(name: str) -> bool:
        answer = operation.call("DescribeVpcAttribute", VpcId=operation.id, Attribute=name)
        return bool(answer[name[0].upper() + name[1:]]["Value"])

    def default(call: str, result: str, *filters: dict[str, Any]) -> str | None:
        of_vpc = where("vpc-id", operation.id)
        found: str | None = search(result, operation.call(call, Filters=[*of_vpc, *filters]))
        return found

    main = default("DescribeRouteTables", "RouteTables[0].RouteTableId", *where("association.main", "true"))
    return {
        "arn": operation.arn("ec2", f"vpc/{operation.id}"),
        "enableDnsSupport": attribute("enableDnsSupport"),
        "enableDnsHostnames": attribute("enableDnsHostnames"),
        "defaultSecurityGroupId": default(
            "DescribeSecurityGroups", "SecurityGroups[0].GroupId", *where("group-name", "default")
        ),
        "defaultNetworkAclId": default(
            "DescribeNetworkAcls", "NetworkAcls[0].NetworkAclId", *where("default", "true")
        ),
        "mainRouteTableId": main,
        "defaultRouteTableId": main,
    }


VPC = Resource(
    "aws:ec2/vpc:Vpc",
    service="ec2",
    id="Vpc.VpcId",
    inputs=[
        Property("cidrBlock", replaces=True, computed=True),
        Property("instanceTenancy", replaces=True, default="default"),
        Property("enableDnsSupport", default=True),
        Property("enableDnsHostnames", default=False, computed=True),
    ],
    outputs=[
        out("arn"),
        out("ownerId"),
        out("dhcpOptionsId"),
        out("defaultSecurityGroupId"),
        out("defaultNetworkAclId"),
        out("defaultRouteTableId"),
        out("mainRouteTableId"),
    ],
    create=Call("CreateVpc"),
    read=Call("DescribeVpcs", {"VpcIds": ["{id}"]}, result="Vpcs[0]"),
    delete=Call("DeleteVpc", {"VpcId": "{id}"}),
    steps=[
        _attribute("ModifyVpcAttribute", "VpcId", "enableDnsSupport", "EnableDnsSupport"),
        _attribute("ModifyVpcAttribute", "VpcId", "enableDnsHostnames", "EnableDnsHostnames"),
    ],
    extend=_vpc_attributes,
    missing=["InvalidVpcID.NotFound"],
    tags=ec2_tags("vpc"),
)

SUBNET = Resource(
    "aws:ec2/subnet:Subnet",
    service="ec2",
    id="Subnet.SubnetId",
    inputs=[
        *inputs("vpcId", "cidrBlock", replaces=True),
        *inputs("availabilityZone", "availabilityZoneId", replaces=True, computed=True),
        Property("mapPublicIpOnLaunch", default=False),
        Property("assignIpv6AddressOnCreation", default=False),
    ],
    outputs=[out("arn", "SubnetArn"), out("ownerId")],
    create=Call("CreateSubnet"),
    read=Call("DescribeSubnets", {"SubnetIds": ["{id}"]}, result="Subnets[0]"),
    delete=Call("DeleteSubnet", {"SubnetId": "{id}"}),
    steps=[
        _attribute("ModifySubnetAttribute", "SubnetId", "mapPublicIpOnLaunch", "MapPublicIpOnLaunch"),
        _attribute(
            "ModifySubnetAttribute", "SubnetId", "assignIpv6AddressOnCreation", "AssignIpv6AddressOnCreation"
        ),
    ],
    missing=["InvalidSubnetID.NotFound"],
    tags=ec2_tags("subnet"),
)


def _attach_gateway(operation: Operation) -> None:
    """Attach to the wanted VPC, leaving the one it's attached to."""
    _detach_gateway(operation)
    if operation.inputs.get("vpcId"):
        operation.call(
            "AttachInternetGateway", InternetGatewayId=operation.id, VpcId=operation.inputs["vpcId"]
        )


def _detach_gateway(operation: Operation) -> None:
    found = operation.call("DescribeInternetGateways", InternetGatewayIds=[operation.id])
    for attachment in found["InternetGateways"][0].get("Attachments", []):
        operation.call("DetachInternetGateway", InternetGatewayId=operation.id, VpcId=attachment["VpcId"])


def _delete_gateway(operation: Operation) -> None:
    _detach_gateway(operation)
    operation.call("DeleteInternetGateway", InternetGatewayId=operation.id)


INTERNET_GATEWAY = Resource(
    "aws:ec2/internetGateway:InternetGateway",
    service="ec2",
    id="InternetGateway.InternetGatewayId",
    inputs=[Property("vpcId", read="Attachments[0].VpcId")],
    outputs=[out("arn"), out("ownerId")],
    create=Call("CreateInternetGateway"),
    read=Call("DescribeInternetGateways", {"InternetGatewayIds": ["{id}"]}, result="InternetGateways[0]"),
    delete=_delete_gateway,
    steps=[Step(["vpcId"], _attach_gateway)],
    extend=lambda operation, description: {
        "arn": operation.arn("ec2", f"internet-gateway/{operation.id}"),
        "ownerId": description.get("OwnerId") or operation.cloud.account,
    },
    missing=["InvalidInternetGatewayID.NotFound"],
    tags=ec2_tags("internet-gateway"),
)


def _address_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    """EC2's public names are made of the address (compute-1 in us-east-1, its first region)."""
    dashed = str(description.get("PublicIp", "")).replace(".", "-")
    place = "compute-1" if operation.region == "us-east-1" else f"{operation.region}.compute"
    private = str(description.get("PrivateIpAddress") or "").replace(".", "-")
    inside = "ec2" if operation.region == "us-east-1" else f"{operation.region}.compute"
    return {
        "arn": operation.arn("ec2", f"elastic-ip/{operation.id}"),
        "publicDns": f"ec2-{dashed}.{place}.amazonaws.com",
        "privateDns": f"ip-{private}.{inside}.internal" if private else None,
    }


EIP = Resource(
    "aws:ec2/eip:Eip",
    service="ec2",
    id="AllocationId",
    inputs=[
        Property("domain", replaces=True, default="vpc", computed=True),
        *inputs("publicIpv4Pool", "networkBorderGroup", replaces=True, computed=True),
    ],
    outputs=[
        out("arn"),
        out("allocationId"),
        out("associationId"),
        out("publicIp"),
        out("privateIp", "PrivateIpAddress"),
        out("networkInterface", "NetworkInterfaceId"),
        out("publicDns"),
        out("privateDns"),
    ],
    create=Call("AllocateAddress"),
    read=Call("DescribeAddresses", {"AllocationIds": ["{id}"]}, result="Addresses[0]"),
    delete=Call("ReleaseAddress", {"AllocationId": "{id}"}),
    extend=_address_properties,
    missing=["InvalidAllocationID.NotFound", "InvalidAddressID.NotFound"],
    tags=ec2_tags("elastic-ip"),
    busy=["InvalidIPAddress.InUse", "AuthFailure", "DependencyViolation"],
)

NAT_GATEWAY = Resource(
    "aws:ec2/natGateway:NatGateway",
    service="ec2",
    id="NatGateway.NatGatewayId",
    inputs=[
        Property("subnetId", replaces=True),
        Property("allocationId", replaces=True, read="NatGatewayAddresses[0].AllocationId"),
        Property("connectivityType", replaces=True, default="public"),
        Property(
            "privateIp",
            api="PrivateIpAddress",
            read="NatGatewayAddresses[0].PrivateIp",
            replaces=True,
            computed=True,
        ),
    ],
    outputs=[
        out("publicIp", "NatGatewayAddresses[0].PublicIp"),
        out("networkInterfaceId", "NatGatewayAddresses[0].NetworkInterfaceId"),
        out("associationId", "NatGatewayAddresses[0].AssociationId"),
    ],
    create=Call("CreateNatGateway"),
    read=Call("DescribeNatGateways", {"NatGatewayIds": ["{id}"]}, result="NatGateways[0]"),
    delete=Call("DeleteNatGateway", {"NatGatewayId": "{id}"}),
    missing=["NatGatewayNotFound"],
    status=Status(
        "State",
        ready=frozenset({"available"}),
        failed=frozenset({"failed"}),
        gone=frozenset({"deleted"}),
        reason=lambda description: [description.get("FailureMessage", "no reason given")],
        minutes=30,
    ),
    tags=ec2_tags("natgateway"),
)

RESOURCES = [VPC, SUBNET, INTERNET_GATEWAY, EIP, NAT_GATEWAY]
