"""Elastic IP addresses: what moto leaves out of them."""

from __future__ import annotations

from typing import Any

from lab.aws.actions import Call, after


@after("ec2", "DescribeAddresses")
def complete(call: Call, result: dict[str, Any]) -> None:
    """Where an address is announced, and that it is Amazon's; nothing where it isn't associated."""
    for address in result["Addresses"]:
        address.network_border_group = call.region
        address.public_ipv4_pool = "amazon"
