"""The plugins when things go wrong: no capacity, throttling, something in the way, a killed engine."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.providers.support import Cloud, Stack, kill, plugins_of
from tests.waiting import eventually

pytestmark = pytest.mark.lab
Make = Callable[[str], Stack]


def test_an_endpoint_elsewhere_is_refused(stack: Make) -> None:
    small = stack("small")
    small.settings.update(CASE="vpc", AWS_ENDPOINT_URL="https://ec2.us-east-1.amazonaws.com")
    small.run("up", "--yes", "--skip-preview", fails=True)
    assert "isn't on this machine" in small.output
    assert "Pulumi's own plugin" in small.output


def test_a_wrong_property_is_named_before_anything_is_made(stack: Make, cloud: Cloud) -> None:
    small = stack("small")
    small.settings["CASE"] = "wrong"
    small.run("preview", fails=True)
    assert 'expected instance_tenancy to be one of ["default" "dedicated"], got shared' in small.output
    assert cloud.resources() == []


def test_a_component_refuses_what_it_does_not_do(stack: Make) -> None:
    small = stack("small")
    small.settings["CASE"] = "component"
    small.run("preview", fails=True)
    for name in ("authenticationMode", "skipDefaultSecurityGroups", "fargate", "proxy"):
        assert name in small.output


def test_a_failed_node_group_stays_in_the_state(stack: Make, cloud: Cloud) -> None:
    """EKS keeps a group whose instances can't be launched; so must the state, or nobody deletes it."""
    small = stack("small")
    small.settings["CASE"] = "no-capacity"
    small.up(fails=True)
    assert "CREATE_FAILED" in small.output and "InsufficientInstanceCapacity" in small.output
    failed = small.resource("p5", "NodeGroup")
    assert failed["id"] and failed["initErrors"]

    # The vendor's provider finds nothing to change in it, so it stays as it is until it is replaced by name.
    assert small.up() == {"updated": 1, "unchanged": 7}
    assert small.resource("p5", "NodeGroup")["outputs"]["status"] == "CREATE_FAILED"
    zone = small.resource("subnet-1", "Subnet")["outputs"]["availabilityZone"]
    cloud.ask("capacity", {"region": "us-east-1", "zone": zone, "type": "p5.48xlarge", "instances": 1})
    assert small.up("--replace", failed["urn"])["replaced"] == 1
    assert small.resource("p5", "NodeGroup")["outputs"]["status"] == "ACTIVE"
    small.destroy()
    assert cloud.resources() == []


def test_a_half_made_resource_stays_in_the_state(stack: Make, cloud: Cloud) -> None:
    """The group is there when its rule is refused: the state knows it, and the next up mends it."""
    small = stack("small")
    small.settings["CASE"] = "half-made"
    limit = {
        "service": "ec2",
        "action": "AuthorizeSecurityGroupIngress",
        "error": "RulesPerSecurityGroupLimitExceeded",
    }
    cloud.ask("faults", limit)
    small.up(fails=True)
    assert "RulesPerSecurityGroupLimitExceeded" in small.output
    group = small.resource("group", "SecurityGroup")
    assert group["id"].startswith("sg-") and group["initErrors"]
    assert small.up()["updated"] == 1
    assert small.resource("group", "SecurityGroup")["id"] == group["id"]
    small.destroy()
    assert cloud.resources() == []


def test_throttling_is_waited_out(stack: Make, cloud: Cloud) -> None:
    small = stack("small")
    small.settings["CASE"] = "vpc"
    cloud.ask("faults", {"service": "ec2", "action": "CreateVpc", "times": 4, "error": "throttle"})
    small.up()
    small.destroy()


def test_something_in_the_way_of_a_delete_is_waited_for(stack: Make, cloud: Cloud) -> None:
    """An interface that somebody else is still taking away."""
    small = stack("small")
    small.settings["CASE"] = "slow"
    small.up()
    ec2 = cloud.client("ec2")
    subnet = small.resource("subnet", "Subnet")["id"]
    interface = ec2.create_network_interface(SubnetId=subnet)["NetworkInterface"]["NetworkInterfaceId"]

    def refused() -> int:
        return sum(call["action"] == "DeleteSubnet" and call["status"] != 200 for call in cloud.ask("calls"))

    destroying = small.start("destroy", "--yes", "--skip-preview")
    eventually(lambda: refused() >= 2, 120)
    destroying.send_signal(signal.SIGINT)  # Ctrl-C: the plugin stops waiting, and the state keeps the subnet
    assert destroying.wait(60) != 0
    assert small.resource("subnet", "Subnet")["id"] == subnet

    seen = refused()
    destroying = small.start("destroy", "--yes", "--skip-preview")
    eventually(lambda: refused() > seen, 120)
    ec2.delete_network_interface(NetworkInterfaceId=interface)
    assert destroying.wait(120) == 0
    assert cloud.resources() == []


def test_plugins_die_with_a_killed_engine(stack: Make, cloud: Cloud) -> None:
    small = stack("small")
    small.settings["CASE"] = "slow"
    cloud.ask("faults", {"service": "ec2", "action": "CreateNatGateway", "delay": 10})
    running = small.start("up", "--yes", "--skip-preview")
    # The request is there (it met the fault), so the state has all that the gateway stands on.
    eventually(lambda: cloud.ask("faults") == [], 120)
    plugins = plugins_of(running.pid)
    assert plugins
    kill(running)
    eventually(lambda: not any(Path(f"/proc/{plugin}").exists() for plugin in plugins))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)  # the language host, which the engine would have ended
    # The world has what the state doesn't know of.
    ec2 = cloud.client("ec2")

    def gateways() -> list[str]:
        alive = [{"Name": "state", "Values": ["pending", "available"]}]
        found = ec2.describe_nat_gateways(Filters=alive)["NatGateways"]
        return [gateway["NatGatewayId"] for gateway in found]

    eventually(lambda: bool(gateways()), 60)
    small.run("cancel", "--yes")
    for gateway in gateways():
        ec2.delete_nat_gateway(NatGatewayId=gateway)
    small.run("refresh", "--yes", "--skip-preview", "--clear-pending-creates")
    small.destroy()
    assert cloud.resources() == []
