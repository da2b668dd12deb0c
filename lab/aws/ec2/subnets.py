"""Subnets as a VPC of one's own has them."""

from __future__ import annotations

from typing import Any

from lab.aws.actions import Call, after
from lab.aws.ec2.tags import backend


@after("ec2", "CreateSubnet")
def not_a_default_subnet(call: Call, result: dict[str, Any]) -> None:
    """moto takes the first subnet of a zone for the zone's default one, with public addresses."""
    created = result["Subnet"]
    subnet_id = created["SubnetId"] if isinstance(created, dict) else created.id
    subnet = backend(call).get_subnet(subnet_id)
    subnet.default_for_az = subnet.map_public_ip_on_launch = False
