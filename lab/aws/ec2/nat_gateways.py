"""NAT gateways: slow to come and to go, with an interface that holds the subnet and the address."""

from __future__ import annotations

from typing import Any

from moto.ec2.models import EC2Backend
from moto.ec2.models.nat_gateways import NatGateway

from lab.aws.actions import ApiError, Call, action, after, before
from lab.aws.ec2.interfaces import mark_owned, remove_owned
from lab.aws.ec2.tags import backend

CREATION = 1.0
"""Seconds; AWS takes a minute or two."""
DELETION = 1.0


@before("ec2", "CreateNatGateway")
def allocation_exists(call: Call) -> None:
    ec2, allocation = backend(call), call.get("AllocationId")
    if call.get("ConnectivityType", "public") == "public" and not allocation:
        raise ApiError("MissingParameter", "The request must include the AllocationId parameter.")
    for address in ec2.addresses if allocation else []:
        if address.allocation_id == allocation:
            if address.association_id:
                raise ApiError("Resource.AlreadyAssociated", f"{allocation} is already associated.")
            return
    if allocation:
        raise ApiError("InvalidAllocationID.NotFound", f"The allocation ID '{allocation}' does not exist")


@after("ec2", "CreateNatGateway")
def becomes_available(call: Call, result: dict[str, Any]) -> None:
    gateway: NatGateway = result["NatGateway"]
    gateway.state = "pending"
    gateway.availability_mode = "zonal"
    gateway.connectivity_type = call.get("ConnectivityType", "public")
    for address in gateway.address_set:
        address.update(isPrimary=True, status="succeeded")
    gateway._eni.description = f"Interface for NAT Gateway {gateway.id}"
    gateway._eni._group_set = []  # a NAT gateway has no security group
    mark_owned(gateway._eni, "amazon-nat-gateway", "nat_gateway")
    call.world.after(CREATION, lambda: _set_state(gateway, "available"))


def _set_state(gateway: NatGateway, state: str) -> None:
    if gateway.state == "pending":
        gateway.state = state


@action("ec2", "DeleteNatGateway")
def delete_nat_gateway(call: Call) -> dict[str, Any]:
    """The interface and the address are held until the state is `deleted`."""
    ec2, gateway_id = backend(call), call["NatGatewayId"]
    gateway = ec2.nat_gateways.get(gateway_id)
    if gateway is None:
        raise ApiError("NatGatewayNotFound", f"NAT gateway {gateway_id} was not found")
    if gateway.state not in ("deleting", "deleted"):
        gateway.state = "deleting"
        call.world.after(DELETION, lambda: _delete(ec2, gateway))
    return {"NatGatewayId": gateway_id}


def _delete(ec2: EC2Backend, gateway: NatGateway) -> None:
    if gateway._eni.public_ip:
        ec2.disassociate_address(address=gateway._eni.public_ip)
    remove_owned(ec2.account_id, ec2.region_name, [gateway._eni.id])
    gateway.state = "deleted"
