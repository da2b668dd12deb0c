"""`python -m lab.aws` as a process: it comes up empty, is swept, and goes on SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from lab.aws.seed import ACCESS_KEY, SECRET_KEY
from tests.lab.aws.support import REGION
from tests.ports import free_port_base
from tests.waiting import eventually

PROJECT = Path(__file__).resolve().parents[3]


class Process:
    def __init__(self, state: Path) -> None:
        base = free_port_base()
        self.environment = os.environ | {"SHARDYARD_STATE": str(state), "SHARDYARD_PORT_BASE": str(base)}
        self.endpoint = f"http://127.0.0.1:{base + 566}"
        self.command = [sys.executable, "-m", "lab.aws", "--no-kubernetes", "--pace", "0.1"]
        self.process = subprocess.Popen(
            self.command, env=self.environment, cwd=PROJECT, stdout=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + 60
        while not self.healthy():
            assert self.process.poll() is None, "it ended at once"
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.endpoint}/_lab/{path}", timeout=60) as answer:
            return json.load(answer)

    def healthy(self) -> bool:
        try:
            return bool(self.get("health")["status"] == "ok")
        except OSError:
            return False

    def client(self, service: str) -> Any:
        keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
        return boto3.client(service, endpoint_url=self.endpoint, region_name=REGION, **keys)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    started = Process(tmp_path)
    yield started
    started.process.kill()
    started.process.wait()


@pytest.mark.lab
def test_a_life(process: Process) -> None:
    assert process.get("resources") == []
    eks, iam, ec2 = process.client("eks"), process.client("iam"), process.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{index}.0/24", AvailabilityZone=f"{REGION}{zone}")
        for index, zone in enumerate("ab")
    ]
    trust = {"Effect": "Allow", "Principal": {"Service": "eks.amazonaws.com"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName="cluster", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    ids = [one["Subnet"]["SubnetId"] for one in subnets]
    made = eks.create_cluster(name="alone", roleArn=role, resourcesVpcConfig={"subnetIds": ids})
    assert made["cluster"]["status"] == "ACTIVE"  # nothing behind it, so nothing to wait for
    kinds = [one["type"] for one in process.get("resources")]
    assert sorted(set(kinds)) == [
        "ec2:network-interface",
        "ec2:security-group",
        "ec2:subnet",
        "ec2:vpc",
        "eks:access-entry",
        "eks:cluster",
        "iam:role",
    ]
    eks.delete_cluster(name="alone")
    eventually(lambda: eks.list_clusters()["clusters"] == [])
    for subnet in ids:
        ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_vpc(VpcId=vpc)
    iam.delete_role(RoleName="cluster")
    assert process.get("resources") == []

    # A second one on the same port says so and leaves the first alone.
    second = subprocess.run(
        process.command, env=process.environment, cwd=PROJECT, capture_output=True, text=True, timeout=60
    )
    assert second.returncode != 0
    assert "in use" in second.stdout + second.stderr
    assert process.healthy()

    process.process.send_signal(signal.SIGTERM)
    assert process.process.wait(timeout=60) == 0
