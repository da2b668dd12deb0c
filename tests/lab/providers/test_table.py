"""The table against what it has to agree with: pulumi_aws's classes and botocore's models."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.providers.aws.cloud import model
from lab.providers.aws.lifecycle import sent_by_create
from lab.providers.aws.operation import locate
from lab.providers.aws.resources import RESOURCES
from lab.providers.aws.table import Call, Resource

ALL = pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda resource: resource.token)
PROJECT = Path(__file__).resolve().parents[3]


@functools.cache
def _classes(token: str) -> dict[str, ast.ClassDef]:
    """The classes of a resource's file in pulumi_aws, from its source: importing it is slow."""
    package, _, file = token.split(":")[1].partition("/")
    folder = Path(str(importlib.util.find_spec("pulumi_aws").origin)).parent / package  # type: ignore[union-attr]
    snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", file).lower()
    tree = ast.parse((folder / f"{snake}.py").read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _getters(of: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    """Each property by its name as the engine sees it: @pulumi.getter(name="cidrBlock"), or the function's."""
    found = {}
    for node in of.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(called, ast.Attribute) and called.attr == "getter":
                given = {word.arg: word.value for word in getattr(decorator, "keywords", [])}
                named = given.get("name")
                found[str(named.value) if isinstance(named, ast.Constant) else node.name] = node
    return found


def sdk_inputs(token: str) -> dict[str, ast.FunctionDef]:
    name = token.rpartition(":")[2]
    classes = _classes(token)
    return _getters(classes.get(f"{name}InitArgs") or classes[f"{name}Args"])


def sdk_outputs(token: str) -> dict[str, ast.FunctionDef]:
    return _getters(_classes(token)[token.rpartition(":")[2]])


def is_list(getter: ast.FunctionDef) -> bool:
    return getter.returns is not None and "Sequence[" in ast.unparse(getter.returns)


def calls(resource: Resource) -> Iterator[Call]:
    for each in (resource.create, resource.read, resource.delete, *(step.action for step in resource.steps)):
        if isinstance(each, Call):
            yield each
    if resource.tags and resource.tags.fetch:
        yield resource.tags.fetch


def used_by_the_program() -> Iterator[str]:
    """Tokens of what the program makes with pulumi_aws: aws.ec2.Vpc → aws:ec2/vpc:Vpc."""
    sources = [
        PROJECT / "__main__.py",
        *(PROJECT / "cluster").rglob("*.py"),
        *(PROJECT / "workloads").rglob("*.py"),
    ]
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            match node:
                case ast.Attribute(value=ast.Attribute(value=ast.Name(id="aws"), attr=module), attr=name):
                    if name[0].isupper() and not name.endswith(("Args", "ArgsDict")):
                        yield f"aws:{module}/{name[0].lower()}{name[1:]}:{name}"


def test_every_type_that_the_program_uses_is_there() -> None:
    tokens = set(used_by_the_program())
    assert "aws:ec2/vpc:Vpc" in tokens
    assert tokens <= set(RESOURCES)


@ALL
def test_inputs_and_outputs_are_the_sdks(resource: Resource) -> None:
    inputs, outputs = sdk_inputs(resource.token).keys(), sdk_outputs(resource.token).keys()
    assert set(resource.by_name) - {"tagsAll"} <= inputs
    assert {prop.name for prop in resource.outputs} <= outputs
    assert ("tags" in inputs) == (resource.tags is not None)
    assert ("region" in inputs) == resource.regional


@ALL
def test_every_output_of_the_sdk_is_filled(resource: Resource) -> None:
    """An output that the plugin forgets would be None in the program, and a riddle to whoever uses it."""
    given = {prop.name for prop in (*resource.by_name.values(), *resource.outputs)}
    outputs = set(sdk_outputs(resource.token)) - set(sdk_inputs(resource.token))
    assert outputs - given - RARE.get(resource.token, set()) == set()


RARE = {
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": {"namePrefix"},
    "aws:ec2/eip:Eip": {"carrierIp", "customerOwnedIp", "ptrRecord"},
    "aws:ec2/natGateway:NatGateway": {
        "autoProvisionZones",
        "autoScalingIps",
        "regionalNatGatewayAddresses",
        "regionalNatGatewayAutoMode",
        "routeTableId",
    },
    "aws:ec2/subnet:Subnet": {"ipv6CidrBlockAssociationId"},
    "aws:ec2/vpc:Vpc": {"ipv6AssociationId"},
    "aws:s3/bucket:Bucket": {"hostedZoneId", "websiteDomain", "websiteEndpoint"},
    "aws:secretsmanager/secretVersion:SecretVersion": {"hasSecretStringWo"},
    "aws:sns/topic:Topic": {"beginningArchiveTime"},
    "aws:sns/topicSubscription:TopicSubscription": {"confirmationWasAuthenticated"},
}
"""Outputs of features that the table doesn't take as inputs either: IPv6, websites, regional NAT, …"""


@ALL
def test_operations_and_their_parameters_exist(resource: Resource) -> None:
    service = model(resource.service)
    for call in calls(resource):
        members = service.operation_model(call.operation).input_shape.members
        assert set(call.parameters) <= set(members), call.operation
        assert not call.inside or call.inside in members
    if resource.tags and resource.tags.add:
        for operation in (resource.tags.add, resource.tags.remove):
            assert set(resource.tags.target) <= set(service.operation_model(operation).input_shape.members)


@ALL
def test_every_input_reaches_aws(resource: Resource) -> None:
    """By the create call, or by a step; or it is marked as steering only the plugin."""
    stepped = {name for step in resource.steps for name in step.properties}
    assert stepped <= set(resource.by_name)
    for prop in resource.by_name.values():
        if prop.name not in ("region", "tags", "tagsAll") and not sent_by_create(resource, prop):
            assert prop.name in stepped or prop.local, prop.name


@ALL
def test_every_input_can_be_changed(resource: Resource) -> None:
    """An input that forces no replacement has a step that changes it."""
    stepped = {name for step in resource.steps for name in step.properties}
    for prop in resource.by_name.values():
        if prop.name not in ("region", "tags", "tagsAll"):
            assert prop.replaces or prop.local or prop.name in stepped, prop.name


@ALL
def test_steps_that_are_calls_take_their_properties(resource: Resource) -> None:
    for step in resource.steps:
        if isinstance(step.action, Call):
            shape = model(resource.service).operation_model(step.action.operation).input_shape
            named = str(step.action.parameters)
            for name in step.properties:
                prop = resource.by_name[name]
                assert locate(shape, prop, step.action.inside) or f"{{{name}}}" in named, name


@ALL
def test_autonamed_property_is_an_input(resource: Resource) -> None:
    if resource.autoname:
        assert resource.autoname.property in resource.by_name
        assert not resource.autoname.prefix or resource.autoname.prefix in resource.by_name


@ALL
def test_single_objects_and_lists_are_the_sdks(resource: Resource) -> None:
    """terraform's blocks that occur once are objects in pulumi-aws, and lists of one in the API."""
    for prop in resource.inputs:
        if isinstance(resource.create, Call) and not prop.local:
            shape = model(resource.service).operation_model(resource.create.operation).input_shape
            target = locate(shape, prop, resource.create.inside)
            if target and target[1].type_name == "list":
                assert prop.single != is_list(sdk_inputs(resource.token)[prop.name]), prop.name
            elif target:
                in_a_list = prop.read.startswith("[")
                assert in_a_list == is_list(sdk_inputs(resource.token)[prop.name]), prop.name
