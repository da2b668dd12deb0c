"""Check: names, tags, and inputs that AWS wouldn't take."""

from __future__ import annotations

from typing import Any

import pytest

from lab.providers.aws.check import check
from lab.providers.aws.resources import RESOURCES
from lab.providers.aws.wire import UNKNOWN, Secret

SEED = bytes(range(32))


def failures(token: str, inputs: dict[str, Any]) -> dict[str, str]:
    _, problems = check(RESOURCES[token], "x", inputs, {}, SEED, {})
    return {problem.path: problem.reason for problem in problems}


def checked(
    token: str, inputs: dict[str, Any], olds: dict[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    result, problems = check(
        RESOURCES[token],
        rest.get("name", "pool"),
        inputs,
        olds or {},
        rest.get("seed", SEED),
        rest.get("tags", {}),
    )
    assert problems == []
    return result


VPC, SUBNET, GROUP = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", "aws:eks/nodeGroup:NodeGroup"
ROLE, BUCKET, ALIAS = "aws:iam/role:Role", "aws:s3/bucket:Bucket", "aws:kms/alias:Alias"
TRUST = '{"Version":"2012-10-17","Statement":[]}'


@pytest.mark.parametrize(
    ("token", "inputs", "path", "words"),
    [
        (VPC, {"cidrBlok": "10.0.0.0/16"}, "cidrBlok", "did you mean 'cidrBlock'"),
        (VPC, {"cidrBlock": 7.5}, None, ""),  # a number is written out, and AWS says what it thinks of it
        (VPC, {"instanceTenancy": "shared"}, "instanceTenancy", "it can be default, dedicated, host"),
        (SUBNET, {"vpcId": ["vpc-1"], "cidrBlock": "x"}, "vpcId", "isn't of type str"),
        (GROUP, {"scalingConfig": {"minSize": "many"}}, "scalingConfig.minSize", "isn't of type int"),
        (GROUP, {"scalingConfig": {"maxSize": 0}}, "scalingConfig.maxSize", "less than 1"),
        (GROUP, {"scalingConfig": {"size": 1}}, "scalingConfig.size", "no such property"),
        (GROUP, {"taints": [{"effect": "NoSchedule"}]}, "taints[0].effect", "it can be NO_SCHEDULE"),
        (GROUP, {"launchTemplate": {"id": "lt-1", "name": "x"}}, "launchTemplate", "not both"),
        (
            "aws:ec2/launchTemplate:LaunchTemplate",
            {"networkInterfaces": [{"deviceIndex": 0, "groups": []}]},
            None,
            "",
        ),
        (
            "aws:ec2/launchTemplate:LaunchTemplate",
            {"networkInterfaces": [{"device": 0}]},
            "networkInterfaces[0].device",
            "no such property",
        ),
        ("aws:ec2/route:Route", {"routeTableId": "rtb-1"}, "destinationCidrBlock", "exactly one of"),
        (
            "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
            {"securityGroupId": "sg-1", "ipProtocol": "tcp"},
            "cidrIpv4",
            "exactly one of",
        ),
        (
            "aws:ec2/capacityReservation:CapacityReservation",
            {"endDateType": "limited"},
            "endDate",
            "has to be set",
        ),
        (
            "aws:ec2/securityGroup:SecurityGroup",
            {"ingress": [{"protocol": "tcp", "fromPort": 1, "toPort": 2, "cidr": "0.0.0.0/0"}]},
            "ingress[0].cidr",
            "no such property",
        ),
    ],
)
def test_a_wrong_input_is_named(token: str, inputs: dict[str, Any], path: str | None, words: str) -> None:
    found = failures(token, inputs)
    if path is None:
        assert found == {}
    else:
        assert words in found[path]


def test_all_wrong_inputs_are_named_at_once() -> None:
    assert set(failures(VPC, {"a": 1, "b": 2, "instanceTenancy": "x"})) == {"a", "b", "instanceTenancy"}


def test_unknown_values_are_taken_to_be_right() -> None:
    inputs = {
        "clusterName": UNKNOWN,
        "nodeRoleArn": UNKNOWN,
        "subnetIds": [UNKNOWN],
        "scalingConfig": {"minSize": UNKNOWN, "maxSize": 1},
        "launchTemplate": {"id": UNKNOWN, "version": UNKNOWN},
        "tags": {"a": UNKNOWN},
    }
    assert failures(GROUP, inputs) == {}
    assert failures("aws:ec2/route:Route", {"routeTableId": UNKNOWN, "gatewayId": UNKNOWN}) == {}


def test_a_name_is_made_of_the_resources_name_and_seven_digits() -> None:
    found = checked(ROLE, {"assumeRolePolicy": TRUST})
    assert found["name"].startswith("pool-") and len(found["name"]) == len("pool-") + 7
    assert found["__defaults"] == ["name"]
    assert checked(ROLE, {"assumeRolePolicy": TRUST})["name"] == found["name"]
    assert checked(ROLE, {"assumeRolePolicy": TRUST}, seed=b"other")["name"] != found["name"]


def test_a_made_up_name_stays() -> None:
    first = checked(ROLE, {"assumeRolePolicy": TRUST})
    again = checked(ROLE, {"assumeRolePolicy": TRUST}, olds=first, seed=b"another")
    assert again["name"] == first["name"]


def test_a_given_name_is_kept_and_not_marked() -> None:
    found = checked(ROLE, {"assumeRolePolicy": TRUST, "name": "mine"})
    assert (found["name"], found["__defaults"]) == ("mine", [])


def test_a_prefix_starts_the_name_and_a_new_prefix_makes_a_new_one() -> None:
    first = checked(ROLE, {"assumeRolePolicy": TRUST, "namePrefix": "a-"})
    assert first["name"].startswith("a-")
    second = checked(ROLE, {"assumeRolePolicy": TRUST, "namePrefix": "b-"}, olds=first)
    assert second["name"].startswith("b-")


def test_names_fit_their_service() -> None:
    long = "A" * 300
    assert len(checked(ROLE, {"assumeRolePolicy": TRUST}, name=long)["name"]) == 64
    bucket = checked(BUCKET, {}, name=long)["bucket"]
    assert len(bucket) == 63 and bucket == bucket.lower()
    assert checked(ALIAS, {"targetKeyId": "k"})["name"].startswith("alias/pool-")


def test_default_tags_go_below_the_resources_own() -> None:
    found = checked(VPC, {"tags": {"a": "1"}}, tags={"a": "0", "b": "2"})
    assert found["tags"] == {"a": "1"}
    assert found["tagsAll"] == {"a": "1", "b": "2"}
    assert checked(VPC, {}, tags={"b": "2"})["tagsAll"] == {"b": "2"}
    assert checked(VPC, {"tags": UNKNOWN})["tagsAll"] is UNKNOWN


def test_secret_inputs_stay_secret() -> None:
    token = "aws:secretsmanager/secretVersion:SecretVersion"
    assert checked(token, {"secretId": "s", "secretString": Secret("x")})["secretString"] == Secret("x")
