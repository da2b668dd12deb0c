"""One emulator for the session, in this process, with a Runtime that writes down what is asked of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.aws import actions, seed, server, services
from lab.aws.world import World
from lab.settings import Lab
from tests.lab.aws.support import (
    PACE,
    REGION,
    Emulator,
    Network,
    RecordingRuntime,
    Roles,
)
from tests.ports import free_port_base
from tests.waiting import eventually


def pytest_configure(config: pytest.Config) -> None:
    # pytest forgets the filter that lab.aws.actions sets.
    config.addinivalue_line("filterwarnings", r"ignore:Exception\(ApiError\) with code")


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    state: Path = tmp_path_factory.mktemp("emulator")
    lab = Lab(name="test", cache=Lab.from_environment().cache, state=state, port_base=free_port_base())
    runtime = RecordingRuntime()
    world = World(lab, runtime, pace=PACE)
    seed.seed()
    services.load()
    actions.install()
    listener = server.make(world)
    thread = threading.Thread(target=listener.serve_forever, daemon=True)
    thread.start()
    yield Emulator(world, runtime)
    listener.shutdown()
    world.close()


@pytest.fixture
def runtime(emulator: Emulator) -> Iterator[RecordingRuntime]:
    """The session's Runtime, well again after the test."""
    yield emulator.runtime
    emulator.runtime.failing.clear()
    emulator.runtime.gate.set()


@pytest.fixture(scope="session")
def ec2(emulator: Emulator) -> Any:
    return emulator.client("ec2")


@pytest.fixture(scope="session")
def eks(emulator: Emulator) -> Any:
    return emulator.client("eks")


_numbers = iter(range(1, 250))


@pytest.fixture
def network(ec2: Any) -> Network:
    number = next(_numbers)
    vpc = ec2.create_vpc(CidrBlock=f"10.{number}.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(
            VpcId=vpc, CidrBlock=f"10.{number}.{index}.0/24", AvailabilityZone=f"{REGION}{zone}"
        )
        for index, zone in enumerate("ab")
    ]
    group = ec2.create_security_group(GroupName="own", Description="own", VpcId=vpc)["GroupId"]
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=itself)
    return Network(vpc, [one["Subnet"]["SubnetId"] for one in subnets], group)


@pytest.fixture(scope="session")
def roles(emulator: Emulator) -> Roles:
    return Roles(emulator)


@pytest.fixture
def cluster(eks: Any, network: Network, roles: Roles, runtime: RecordingRuntime) -> str:
    """The name of an ACTIVE cluster in the test's network."""
    name = f"cluster-{network.vpc[-6:]}"
    eks.create_cluster(
        name=name,
        version="1.34",
        roleArn=roles.role("eks.amazonaws.com"),
        resourcesVpcConfig={"subnetIds": network.subnets},
        accessConfig={"authenticationMode": "API"},
    )
    eventually(lambda: eks.describe_cluster(name=name)["cluster"]["status"] == "ACTIVE")
    return name
