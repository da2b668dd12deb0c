"""The AWS plugin without an engine: started as the engine starts it, asked through Pulumi's provider protocol."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import provider_pb2 as pb
from pulumi.runtime.proto import provider_pb2_grpc

from lab.settings import Lab

SEED = bytes(range(32))
"""What made-up names are made of."""


def program() -> Path:
    return Lab.from_environment().bin / "pulumi-resource-aws"


def described() -> dict[str, dict[str, Any]]:
    """Every resource's properties, by token, as the bridge makes them of Terraform's schemas."""
    output = subprocess.run([program(), "--describe"], capture_output=True, check=True).stdout
    found: dict[str, dict[str, Any]] = json.loads(output)
    return found


class Plugin:
    """A running plugin. Values are plain: no secrets, nothing unknown."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self._stub = provider_pb2_grpc.ResourceProviderStub(grpc.insecure_channel(f"127.0.0.1:{port}"))

    def check_config(self, inputs: Mapping[str, Any]) -> list[str]:
        """The reasons why these provider inputs are refused."""
        urn = "urn:pulumi:test::test::pulumi:providers:aws::aws"
        answer = self._stub.CheckConfig(pb.CheckRequest(urn=urn, news=_struct(inputs)))
        return [failure.reason for failure in answer.failures]

    def configure(self, inputs: Mapping[str, Any]) -> None:
        self._stub.Configure(
            pb.ConfigureRequest(args=_struct(inputs), acceptSecrets=True, acceptResources=True)
        )

    def check(self, token: str, inputs: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The inputs with defaults and made-up names, and what is wrong with them."""
        request = pb.CheckRequest(urn=_urn(token), type=token, news=_struct(inputs), randomSeed=SEED)
        try:
            answer = self._stub.Check(request)
        except grpc.RpcError as error:  # validators of the plugin framework fail the whole call
            return {}, [error.details()]
        checked: dict[str, Any] = json_format.MessageToDict(answer.inputs)
        return checked, [f"{failure.property}: {failure.reason}" for failure in answer.failures]

    def create_preview(self, token: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The state that a preview shows: outputs that only AWS knows are left out or unknown."""
        request = pb.CreateRequest(urn=_urn(token), type=token, properties=_struct(inputs), preview=True)
        state: dict[str, Any] = json_format.MessageToDict(self._stub.Create(request).properties)
        return state

    def diff(
        self, token: str, old: Mapping[str, Any], state: Mapping[str, Any], new: Mapping[str, Any]
    ) -> Any:
        """The protocol's answer: `replaces`, `diffs`, `deleteBeforeReplace`."""
        request = pb.DiffRequest(
            id="id",
            urn=_urn(token),
            type=token,
            olds=_struct(state),
            old_inputs=_struct(old),
            news=_struct(new),
        )
        return self._stub.Diff(request)


@contextmanager
def running(variables: Mapping[str, str]) -> Iterator[Plugin]:
    """A plugin with these environment variables beside those of this process."""
    process = subprocess.Popen(
        [program()],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    try:
        line = process.stdout.readline().strip()
        assert line.isdigit(), (
            f"the first line has to be the port: {line!r} {process.stderr and process.stderr.read()}"
        )
        yield Plugin(process, int(line))
    finally:
        process.kill()
        process.wait(10)


def _urn(token: str) -> str:
    return f"urn:pulumi:test::test::{token}::name"


def _struct(values: Mapping[str, Any]) -> Struct:
    made = Struct()
    made.update({name: value for name, value in values.items() if value is not None})
    return made
