"""What the tests of the emulator share: a Runtime that remembers, an emulator's clients, waiting."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lab.aws import seed
from lab.aws.world import World
from lab.nodes.api import AccessEntry, ClusterEndpoint, ClusterSpec, NodeSpec

REGION = "us-east-1"
PACE = 0.1
"""Waits take a tenth of their time."""


class RecordingRuntime:
    """Does nothing but remember; `failing` maps a method's name to the message it fails with."""

    def __init__(self) -> None:
        self.clusters: dict[str, dict[str, NodeSpec]] = {}
        self.addons: dict[tuple[str, str], tuple[str, Mapping[str, object]]] = {}
        self.access: dict[str, Sequence[AccessEntry]] = {}
        self.calls: list[str] = []
        self.failing: dict[str, str] = {}
        self.gate = threading.Event()
        """add_nodes waits for it."""
        self.gate.set()

    def _note(self, name: str) -> None:
        self.calls.append(name)
        if name in self.failing:
            raise RuntimeError(self.failing[name])

    def create_cluster(self, spec: ClusterSpec) -> ClusterEndpoint:
        self._note("create_cluster")
        self.clusters[spec.name] = {}
        return ClusterEndpoint("https://127.0.0.1:6443", "Q0E=", "172.20.0.0/16")

    def delete_cluster(self, name: str) -> None:
        self._note("delete_cluster")
        del self.clusters[name]

    def add_nodes(self, cluster: str, nodes: Sequence[NodeSpec]) -> None:
        self.gate.wait(10)
        self._note("add_nodes")
        self.clusters[cluster].update({node.name: node for node in nodes})

    def remove_nodes(self, cluster: str, names: Sequence[str]) -> None:
        self._note("remove_nodes")
        for name in names:
            self.clusters[cluster].pop(name, None)

    def install_addon(self, cluster: str, name: str, version: str, values: Mapping[str, object]) -> None:
        self._note("install_addon")
        self.addons[cluster, name] = version, values

    def remove_addon(self, cluster: str, name: str) -> None:
        self._note("remove_addon")
        del self.addons[cluster, name]

    def apply_access(self, cluster: str, entries: Sequence[AccessEntry]) -> None:
        self._note("apply_access")
        self.access[cluster] = list(entries)

    def shutdown(self) -> None:
        self._note("shutdown")


@dataclass
class Emulator:
    world: World
    runtime: RecordingRuntime
    _clients: dict[str, Any] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return self.world.lab.aws_endpoint

    def client(self, service: str) -> Any:
        """A client with the lab's key, which tries each call twice."""
        if service not in self._clients:
            self._clients[service] = boto3.client(
                service,
                endpoint_url=self.endpoint,
                region_name=REGION,
                aws_access_key_id=seed.ACCESS_KEY,
                aws_secret_access_key=seed.SECRET_KEY,
                config=Config(retries={"max_attempts": 1}),
            )
        return self._clients[service]

    def console(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """A request to /_lab/…; the answer's JSON."""
        request = urllib.request.Request(
            f"{self.endpoint}/_lab/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


@dataclass
class Network:
    """A VPC of the test's own, with a subnet in each of the zones a and b."""

    vpc: str
    subnets: list[str]
    group: str
    """A security group that lets its own members through."""


@dataclass
class Roles:
    emulator: Emulator
    made: dict[str, str] = field(default_factory=dict)

    def role(self, service: str) -> str:
        """The ARN of a role that the service, and everybody of the account, may assume."""
        if service not in self.made:
            principal = {"Service": service, "AWS": "arn:aws:iam::123456789012:root"}
            statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
            policy = {"Version": "2012-10-17", "Statement": [statement]}
            name = service.partition(".")[0]
            answer = self.emulator.client("iam").create_role(
                RoleName=name, AssumeRolePolicyDocument=json.dumps(policy)
            )
            self.made[service] = answer["Role"]["Arn"]
        return self.made[service]


def refused(call: Any, **parameters: Any) -> str:
    """The code of the error that the call must fail with."""
    with pytest.raises(ClientError) as failure:
        call(**parameters)
    return str(failure.value.response["Error"]["Code"])
