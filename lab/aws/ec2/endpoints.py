"""VPC endpoints: an interface in each subnet, with the endpoint's security groups, until it is gone."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import Any

from moto.ec2.models import EC2Backend
from moto.ec2.models.vpcs import VPCEndPoint

from lab.aws.actions import Call, action, after
from lab.aws.ec2.interfaces import create_owned, mark_owned, remove_owned
from lab.aws.ec2.tags import backend

CREATION = 1.0
"""Seconds; AWS takes a few minutes for an interface endpoint."""
DELETION = 1.0


@after("ec2", "CreateVpcEndpoint")
def owns_its_interfaces(call: Call, result: dict[str, Any]) -> None:
    endpoint: VPCEndPoint = result["VpcEndpoint"]
    endpoint.ip_address_type = call.get("IpAddressType", "ipv4")
    endpoint.requester_managed = False
    endpoint.dns_options = {"PrivateDnsOnlyForInboundResolverEndpoint": False}
    if not _has_interfaces(endpoint):
        endpoint.vpc_endpoint_type = endpoint.vpc_endpoint_type or "Gateway"
        endpoint.private_dns_enabled = False  # moto's default is that of interface endpoints
        return
    endpoint.dns_options |= {"DnsRecordIpType": "ipv4", **call.get("DnsOptions", {})}
    ec2 = backend(call)
    if not endpoint.security_group_ids:
        default = ec2.get_default_security_group(endpoint.vpc_id)
        endpoint.security_group_ids = [default.id] if default else []
    for interface_id in endpoint.network_interface_ids:
        interface = ec2.get_network_interface(interface_id)
        interface.description = f"VPC Endpoint Interface {endpoint.id}"
        mark_owned(interface, "amazon-vpce", "vpc_endpoint")
    _set_groups(ec2, endpoint)
    _set_names(ec2, endpoint)
    endpoint.state = "pending"
    call.world.after(CREATION, lambda: setattr(endpoint, "state", "available"))


@after("ec2", "ModifyVpcEndpoint")
def interfaces_follow(call: Call, _: Any) -> None:
    """moto changes the lists of the endpoint, but not the interfaces and routes behind them."""
    ec2 = backend(call)
    endpoint = ec2.vpc_end_points[call["VpcEndpointId"]]
    if "PrivateDnsEnabled" in call.parameters:
        endpoint.private_dns_enabled = call["PrivateDnsEnabled"]
    if call.get("ResetPolicy"):
        endpoint.policy_document = json.dumps(VPCEndPoint.DEFAULT_POLICY)
    if not _has_interfaces(endpoint):
        return
    present = {ec2.get_network_interface(one).subnet.id: one for one in endpoint.network_interface_ids}
    for subnet in set(endpoint.subnet_ids) - set(present):
        present[subnet] = create_owned(
            call.account,
            call.region,
            subnet,
            f"VPC Endpoint Interface {endpoint.id}",
            "amazon-vpce",
            endpoint.security_group_ids,
            "vpc_endpoint",
        )
    gone = [interface for subnet, interface in present.items() if subnet not in endpoint.subnet_ids]
    remove_owned(call.account, call.region, gone)
    endpoint.network_interface_ids = [one for one in present.values() if one not in gone]
    endpoint.dns_options |= call.get("DnsOptions", {})
    _set_groups(ec2, endpoint)
    _set_names(ec2, endpoint)


@action("ec2", "DeleteVpcEndpoints")
def delete_vpc_endpoints(call: Call) -> dict[str, Any]:
    """Interfaces hold their subnets and groups for a while; unknown ids are reported, not raised."""
    ec2, unsuccessful = backend(call), []
    for endpoint_id in call["VpcEndpointIds"]:
        endpoint = ec2.vpc_end_points.get(endpoint_id)
        if endpoint is None:
            message = f"The Vpc Endpoint Id '{endpoint_id}' does not exist"
            error = {"Code": "InvalidVpcEndpoint.NotFound", "Message": message}
            unsuccessful.append({"ResourceId": endpoint_id, "Error": error})
        elif endpoint.state != "deleting":
            endpoint.state = "deleting"
            wait = DELETION if _has_interfaces(endpoint) else 0.0
            call.world.after(wait, partial(_delete, ec2, endpoint))
    return {"Unsuccessful": unsuccessful}


def _has_interfaces(endpoint: VPCEndPoint) -> bool:
    return str(endpoint.vpc_endpoint_type).lower() == "interface"


def _set_groups(ec2: EC2Backend, endpoint: VPCEndPoint) -> None:
    groups = [ec2.get_security_group_from_id(group) for group in endpoint.security_group_ids]
    for interface_id in endpoint.network_interface_ids:
        ec2.get_network_interface(interface_id)._group_set = list(groups)


def _set_names(ec2: EC2Backend, endpoint: VPCEndPoint) -> None:
    """The endpoint's name, one for each zone, and the service's own name if private DNS is on."""
    service = endpoint.service_name.removeprefix(f"com.amazonaws.{ec2.region_name}.")
    suffix = f"{service}.{ec2.region_name}.vpce.amazonaws.com"
    host = f"{endpoint.id}-{_letters(endpoint.id, 8)}"
    zones = sorted({ec2.get_subnet(one).availability_zone for one in endpoint.subnet_ids})
    names = [f"{host}.{suffix}", *(f"{host}-{zone}.{suffix}" for zone in zones)]
    entries = [{"DnsName": name, "HostedZoneId": "Z7HUB22UULQXV"} for name in names]
    if endpoint.private_dns_enabled:
        private = ".".join([*reversed(service.split(".")), ec2.region_name, "amazonaws.com"])
        zone = f"Z{_letters(endpoint.vpc_id + service, 19).upper()}"
        entries.append({"DnsName": private, "HostedZoneId": zone})
    endpoint.dns_entries = entries if zones else []


def _letters(text: str, count: int) -> str:
    """The same letters and digits for the same text."""
    return hashlib.sha256(text.encode()).hexdigest()[:count]


def _delete(ec2: EC2Backend, endpoint: VPCEndPoint) -> None:
    remove_owned(ec2.account_id, ec2.region_name, endpoint.network_interface_ids)
    for table_id in endpoint.route_table_ids or []:
        table = ec2.route_tables.get(table_id)
        if table:
            routes = table._routes.items()
            table._routes = {name: route for name, route in routes if route.gateway is not endpoint}
    ec2.vpc_end_points.pop(endpoint.id, None)
    ec2.tags.pop(endpoint.id, None)
