"""The p5 stack as it lies in stacks/, brought up on the lab with simulated nodes and taken down to nothing."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.settings import load_stack_file
from lab import images
from lab.cli import lab_state, lock, services
from lab.cli.stack import Stack
from lab.cli.up import write_kubeconfig
from tests.lifecycle.conftest import PROJECT, Driver

pytestmark = pytest.mark.lab

WORKERS = 16


@pytest.fixture(scope="module")
def p5(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The stack, up. Pulumi writes its encryption salt into the stack file, hence a copy of the project."""
    project = tmp_path_factory.mktemp("project")
    for entry in ("Pulumi.yaml", "__main__.py", "cluster", "workloads", "trainer"):
        (project / entry).symlink_to(PROJECT / entry)
    shutil.copytree(PROJECT / "stacks", project / "stacks")
    with lock.held(driver.lab, "the test of stack p5"):
        # if this is killed, the next command clears everything away
        lab_state.write(driver.lab, lab_state.Phase.CHANGING, "the test of stack p5")
        services.start(driver.lab)
        images.push(driver.lab)
        _stand_in_for_the_base_image(driver)
        stack = driver.stack("p5", project)
        stack.init()
        stack.up()
        write_kubeconfig(driver.lab, stack)
        yield stack
        services.stop(driver.lab)


def _stand_in_for_the_base_image(driver: Driver) -> None:
    """AWS' public registry is out of reach: the lab's own base under the name that the stack file builds on."""
    base = load_stack_file(PROJECT / "stacks/Pulumi.p5.yaml").image.base
    name = f"docker://{driver.lab.registry}/{getattr(base, 'tag', base)}"
    pushed = driver.shell(f"buildah push --tls-verify=false localhost/shardyard/base:debian-12 {name}")
    assert pushed.returncode == 0


def test_sixteen_workers_are_placed_with_all_gpus_and_interfaces(driver: Driver, p5: Stack) -> None:
    pods: list[dict[str, Any]] = []
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        listed = json.loads(
            driver.kubectl("get pods -A -l training.kubeflow.org/replica-type=worker -o json")
        )
        pods = [pod for pod in listed["items"] if pod["spec"].get("nodeName")]
        if len(pods) == WORKERS:
            break
        time.sleep(2)
    assert len(pods) == WORKERS
    assert len({pod["spec"]["nodeName"] for pod in pods}) == WORKERS, "one worker per node"
    for pod in pods:
        for kind in ("requests", "limits"):
            resources = pod["spec"]["containers"][0]["resources"][kind]
            assert resources["nvidia.com/gpu"] == "8"
            assert resources["vpc.amazonaws.com/efa"] == "32"


def test_nodes_stand_in_the_zone_of_the_reservation_and_use_it_up(driver: Driver, p5: Stack) -> None:
    nodes = json.loads(driver.kubectl("get nodes -l node.kubernetes.io/instance-type=p5.48xlarge -o json"))[
        "items"
    ]
    assert len(nodes) == WORKERS
    reservations = driver.client("ec2").describe_capacity_reservations()["CapacityReservations"]
    (reservation,) = [r for r in reservations if r["State"] == "active"]
    zones = {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes}
    assert zones == {reservation["AvailabilityZone"]}
    assert reservation["TotalInstanceCount"] == WORKERS
    assert reservation["AvailableInstanceCount"] == 0


def test_instances_carry_the_interfaces_of_their_type(driver: Driver, p5: Stack) -> None:
    pages = driver.client("ec2").get_paginator("describe_instances").paginate()
    found = [i for page in pages for r in page["Reservations"] for i in r["Instances"]]
    accelerated = [i for i in found if i["InstanceType"] == "p5.48xlarge" and i["State"]["Name"] == "running"]
    assert len(accelerated) == WORKERS
    for instance in accelerated:
        kinds = [interface["InterfaceType"] for interface in instance["NetworkInterfaces"]]
        assert sum(kind in ("efa", "efa-only") for kind in kinds) == 32


def test_a_second_up_changes_nothing(p5: Stack) -> None:
    assert set(p5.up()) <= {"same"}


def test_destroy_leaves_data_with_its_protection_and_nothing_else(driver: Driver, p5: Stack) -> None:
    outputs = p5.outputs()
    p5.destroy()
    assert p5.resources() == []
    assert services.remaining_resources(driver.lab) == []
    assert len(services.kept_resources(driver.lab)) == len(outputs["keptOnDestroy"]) == 3
    s3, ecr = driver.client("s3"), driver.client("ecr")
    for bucket in (outputs["dataBucket"], outputs["checkpointBucket"]):
        block = s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
        assert all(block.values())
        assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
        assert "aws:SecureTransport" in s3.get_bucket_policy(Bucket=bucket)["Policy"]
        assert s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
        assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
        assert s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"]
    repository = outputs["repository"].partition("/")[2]
    assert ecr.get_lifecycle_policy(repositoryName=repository)["lifecyclePolicyText"]
    assert ecr.describe_images(repositoryName=repository)["imageDetails"]
