"""Run the program under the SDK's mocks and remember every resource with its inputs."""

from __future__ import annotations

import asyncio
import atexit
import json
import runpy
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pytest
import yaml

ROOT = Path(__file__).parents[2]
OUTPUTS: dict[str, dict[str, Any]] = {
    "aws:eks/cluster:Cluster": {
        "endpoint": "https://example.com",
        "vpcConfig": {"clusterSecurityGroupId": "sg-cluster"},
    },
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
    "aws:ecr/repository:Repository": {"repositoryUrl": "registry.example.com/trainer"},
    "aws:fsx/lustreFileSystem:LustreFileSystem": {"dnsName": "fs.example.com", "mountName": "abc"},
    "pulumi-python:dynamic/shardyard:BuiltImage": {
        "reference": f"registry.example.com/trainer@sha256:{'c' * 64}"
    },
}
"""What resources know only once they exist."""


@dataclass(frozen=True)
class Made:
    type: str
    name: str
    inputs: dict[str, Any]


@dataclass(frozen=True)
class Options:
    """Of a registration: what the engine goes by when it destroys."""

    type: str
    name: str
    parent: str
    """Its URN."""
    retained: bool
    deleted_with: str
    """URN of what takes it along when that is deleted."""
    refers_to: frozenset[str]
    """URNs of the resources that its inputs come from."""


@dataclass
class Recording(pulumi.runtime.Mocks):
    """Every resource in the order in which it was registered."""

    made: list[Made] = field(default_factory=list)
    looked_up: set[str] = field(default_factory=set)
    """Tokens of the functions that the program called."""
    options: dict[str, Options] = field(default_factory=dict)
    """By URN."""
    outputs: dict[str, Any] = field(default_factory=dict)
    """The stack's."""
    cluster: dict[str, Any] = field(default_factory=dict)
    """What the control plane's component was asked for, in Python's spelling."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        self.made.append(Made(args.typ, args.name, dict(args.inputs)))
        known = {
            "arn": f"arn:aws:x:us-east-1:123456789012:{args.name}",
            "name": args.name,
            "bucket": args.name,
        }
        return f"{args.name}-id", {**known, **args.inputs, **OUTPUTS.get(args.typ, {})}

    def call(self, args: pulumi.runtime.MockCallArgs) -> Any:
        self.looked_up.add(args.token)
        if args.token == "aws:index/getAvailabilityZones:getAvailabilityZones":
            zones = args.args["filters"][0]["values"]
            return {"names": [f"name-of-{zone}" for zone in zones], "zoneIds": zones}
        if args.token == "aws:index/getCallerIdentity:getCallerIdentity":
            return {"accountId": "123456789012"}
        raise AssertionError(f"the program looks something up: {args.token}")

    def of(self, kind: str) -> dict[str, dict[str, Any]]:
        """Inputs by name of all resources whose type ends so."""
        return {one.name: one.inputs for one in self.made if one.type.endswith(kind)}


class Cluster(pulumi.ComponentResource):
    """In place of pulumi-eks's component, which mocks don't expand: the one child whose outputs are used."""

    arguments: dict[str, Any]

    def __init__(self, resource_name: str, opts: pulumi.ResourceOptions, **arguments: Any) -> None:
        super().__init__("eks:index:Cluster", resource_name, None, opts)
        if not arguments:
            return  # somebody else's reference to the one that exists
        type(self).arguments = arguments
        inner = aws.eks.Cluster(
            f"{resource_name}-eksCluster",
            role_arn="arn:aws:iam::123456789012:role/eks",
            vpc_config={"subnet_ids": arguments["subnet_ids"]},
            name=arguments["name"],
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.eks_cluster = pulumi.Output.from_input(inner)
        self.kubeconfig_json = inner.endpoint.apply(lambda endpoint: json.dumps({"server": endpoint}))


class Monitor(pulumi.runtime.mocks.MockMonitor):
    """Notes the options, of which the SDK's own tells its mocks nothing."""

    mocks: Recording

    def RegisterResource(self, request: Any) -> Any:
        answer = super().RegisterResource(request)
        sources = {urn for one in request.propertyDependencies.values() for urn in one.urns}
        self.mocks.options[answer.urn] = Options(
            request.type,
            request.name,
            request.parent,
            request.retainOnDelete,
            request.deletedWith,
            frozenset(sources),
        )
        return answer


def _project(stack: str, content: dict[str, Any]) -> Path:
    """The repository with this content of one stack file: the program reads it, and trusts nothing else."""
    project = Path(tempfile.mkdtemp(prefix="shardyard-program-"))
    atexit.register(shutil.rmtree, project, ignore_errors=True)
    for entry in ROOT.iterdir():
        if entry.name != "stacks":
            (project / entry.name).symlink_to(entry)
    shutil.copytree(ROOT / "stacks", project / "stacks")
    (project / f"stacks/Pulumi.{stack}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return project


@cache
def run(
    stack: str, *, preview: bool = False, delete_data: bool | None = None, preparing: bool = False
) -> Recording:
    """The program, whole, with the configuration of a stack file of the repository. Once: it takes seconds.

    `delete_data` takes the place of the file's own `storage.deleteData`; `preparing` adds a preparation, "corpus".
    """
    recording = Recording()
    content = yaml.safe_load((ROOT / f"stacks/Pulumi.{stack}.yaml").read_text())
    if delete_data is not None:
        content["config"]["shardyard:storage"]["deleteData"] = delete_data
    if preparing:
        corpus = {"source": "/fsx/data/texts", "output": "/fsx/data/corpus", "parts": 2}
        content["config"]["shardyard:training"]["dataPreparationJobs"] = {"corpus": corpus}
    project = _project(stack, content)
    config = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in content["config"].items()
    }
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(
        recording, project="shardyard", stack=stack, preview=preview, monitor=Monitor(recording)
    )
    pulumi.runtime.set_all_config(config)

    exported: dict[str, Any] = {}

    @pulumi.runtime.test
    def program() -> pulumi.Output[None]:
        runpy.run_path(str(ROOT / "__main__.py"))
        return pulumi.Output.from_input(exported).apply(recording.outputs.update)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        patch.setattr(eks, "Cluster", Cluster)
        patch.setattr(pulumi, "export", exported.__setitem__)
        program()
    recording.cluster = Cluster.arguments
    return recording
