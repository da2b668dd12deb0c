"""The bridge's types are those of the installed pulumi_aws: the next version of it can't drift away unseen.

pulumi_aws is generated from a table over terraform-provider-aws that no registry has; the plugin's own table
(lab/toolchain/pulumi-aws/types.go) has to say the same for every type that it serves.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.providers import plugin, sdk
from tests.program import recording

pytestmark = pytest.mark.lab

LATER: dict[str, set[str]] = {
    "aws:cloudwatch/metricAlarm:MetricAlarm": {"evaluationWindow", "warmUpConfiguration"},
    "aws:ec2/flowLog:FlowLog": {"tagFieldSpecifications"},
    "aws:eks/cluster:Cluster": {
        "defaultAddonsToRemoves",
        "kubeApiServerConfig",
        "kubeControllerManagerConfig",
        "kubeSchedulerConfig",
    },
    "aws:eks/nodeGroup:NodeGroup": {"warmPoolConfig"},
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": {"policy"},
    "aws:secretsmanager/secret:Secret": {"type"},
    "aws:sns/topic:Topic": {"maximumMessageSize"},
}
NESTED_LATER = {
    "aws:ec2/launchTemplate:LaunchTemplate networkInterfaces": {"enaQueueCount"},
    "aws:eks/cluster:Cluster outpostConfig": {"etcdInstanceType", "etcdPlacement"},
    "aws:eks/cluster:Cluster outpostConfig.controlPlanePlacement": {"spreadLevel"},
    "aws:eks/cluster:Cluster vpcConfig": {"controlPlaneEgressMode"},
}
"""Inputs that came to pulumi_aws after the version of terraform-provider-aws that the Go proxy has."""
OPTIONAL_LATER = {"aws:eks/cluster:Cluster outpostConfig.controlPlanePlacement.groupName"}
"""Inputs that the newer version no longer requires."""
DEPRECATED = "aws:s3/bucket:Bucket "
"""Nested inputs of the bucket, such as its encryption: pulumi_aws keeps an older shape of them. The program uses the
resources of their own instead."""
REPLACING_IN_SOME_CASES = {
    "aws:ec2/subnet:Subnet ipv6CidrBlock",
    "aws:ec2/vpcEndpoint:VpcEndpoint privateDnsEnabled",
    "aws:fsx/lustreFileSystem:LustreFileSystem fileSystemTypeVersion",
    "aws:fsx/lustreFileSystem:LustreFileSystem metadataConfiguration.mode",
}
"""Their texts speak of a replacement for certain changes only; the provider decides when it compares."""


@functools.cache
def described() -> dict[str, dict[str, Any]]:
    return plugin.described()


def pairs() -> Iterator[tuple[str, str, dict[str, Any], sdk.Property]]:
    """(token, path, the bridge's property, pulumi_aws's) of every input that both have, nested ones too."""

    def below(
        token: str, path: str, bridge: dict[str, Any], package: dict[str, sdk.Property]
    ) -> Iterator[Any]:
        for name in sorted(bridge.keys() & package.keys()):
            here = f"{path}.{name}" if path else name
            yield token, here, bridge[name], package[name]
            yield from below(token, here, bridge[name].get("nested") or {}, dict(package[name].nested))

    for token, properties in described().items():
        yield from below(token, "", properties, sdk.inputs(token))


def test_every_type_of_the_table_is_one_of_pulumi_aws() -> None:
    assert len(described()) > 50
    for token in described():
        assert sdk.resource_class(token)


def test_every_resource_of_the_program_is_served() -> None:
    for stack in ("local", "p5"):
        used = {each.type for each in recording.run(stack).made if each.type.startswith("aws:")}
        assert len(used) > 20
        assert used <= described().keys(), "add them to lab/toolchain/pulumi-aws/types.go, a line each"


def test_names_are_the_same() -> None:
    wrong = {}
    for token, properties in described().items():
        bridge = {name for name, found in properties.items() if found["input"]} - {"id", "tagsAll"}
        package = set(sdk.inputs(token)) - LATER.get(token, set()) - {"tagsAll"}
        if bridge != package:
            wrong[token] = {"only the bridge": bridge - package, "only pulumi_aws": package - bridge}
    assert not wrong


def test_outputs_are_the_same() -> None:
    wrong = {}
    for token, properties in described().items():
        missing = sdk.outputs(token) - set(properties) - LATER.get(token, set())
        if missing:
            wrong[token] = missing
    assert not wrong


def test_what_is_said_to_be_later_is_really_not_there() -> None:
    for token, names in LATER.items():
        assert names <= set(sdk.inputs(token))
        assert not names & set(described()[token])


def test_the_program_uses_nothing_that_is_later_or_deprecated() -> None:
    old_shapes = {name for name, found in sdk.inputs("aws:s3/bucket:Bucket").items() if found.nested}
    unusable = {**LATER, "aws:s3/bucket:Bucket": old_shapes}
    for each in [*recording.run("local").made, *recording.run("p5").made]:
        assert not unusable.get(each.type, set()) & set(each.inputs), f"{each.type} {each.name}"


def test_nested_names_are_the_same() -> None:
    wrong = {}
    for token, path, bridge, package in pairs():
        nested = bridge.get("nested") or {}
        taken = {name for name, found in nested.items() if found["input"]}
        there = set(package.nested) - NESTED_LATER.get(f"{token} {path}", set())
        if f"{token} {path}".startswith(DEPRECATED):
            continue
        # pulumi_aws also has what AWS alone fills in, as an input that nobody gives
        if there and not taken <= there <= set(nested):
            wrong[f"{token} {path}"] = (taken - there) | (there - set(nested))
    assert not wrong


def kind_of(bridge: dict[str, Any]) -> str:
    """The bridge's type in pulumi_aws's words: a list of at most one is the one."""
    single = {"List": "Object", "Set": "Object"} if bridge.get("nested") else {}
    kind = bridge["type"].removeprefix("Type").removeprefix("type").capitalize()
    if bridge["maxItemsOne"] and kind in ("List", "Set"):
        return single.get(kind, "One")
    if kind == "Map" and bridge.get("nested"):
        return "Object"
    return {"Set": "List"}.get(kind, kind)


def test_types_are_the_same() -> None:
    wrong = {
        f"{token} {path}": (kind_of(bridge), package.type)
        for token, path, bridge, package in pairs()
        if kind_of(bridge) != package.type
        and not (kind_of(bridge) == "One" and package.type in sdk.SIMPLE.values())
        and {kind_of(bridge), package.type} != {"Float", "Int"}
    }
    assert not wrong


def test_defaults_are_the_same() -> None:
    wrong = {
        f"{token} {path}": (bridge.get("default"), package.default)
        for token, path, bridge, package in pairs()
        if package.default is not None and bridge.get("default") != package.default
    }
    assert not wrong


def test_required_inputs_are_the_same() -> None:
    wrong = [
        f"{token} {path}"
        for token, path, bridge, package in pairs()
        if (bridge["required"] and not bridge["autoNamed"] and bridge.get("default") is None)
        != package.required
        and f"{token} {path}" not in OPTIONAL_LATER
        and not f"{token} {path}".startswith(DEPRECATED)
    ]
    assert not wrong


def test_secrets_are_the_same() -> None:
    wrong = {
        f"{token} {path}": (bridge["secret"], package.secret)
        for token, path, bridge, package in pairs()
        if "." not in path and bridge["secret"] != package.secret
    }
    assert not wrong


def test_what_the_documentation_says_replaces_a_resource_does() -> None:
    """pulumi_aws's classes carry no flag for it, only texts, and not everywhere."""
    documented = {
        f"{token} {path}": bridge["forceNew"]
        for token, path, bridge, package in pairs()
        if package.documented_as_replacing
    }
    assert len(documented) > 5
    assert {name for name, replaces in documented.items() if not replaces} == REPLACING_IN_SOME_CASES
