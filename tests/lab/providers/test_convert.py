"""From pulumi's names and values to the API's, and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.providers.aws.cloud import model
from lab.providers.aws.convert import Problem, find, from_api, lower_camel, to_api
from lab.providers.aws.wire import UNKNOWN


def convert(
    service: str, operation: str, member: str, value: Any, names: dict[str, str] | None = None
) -> Any:
    """The value as that member of the operation's input; fails on any problem."""
    problems: list[Problem] = []
    shape = model(service).operation_model(operation).input_shape.members[member]
    result = to_api(shape, value, names or {}, member, problems)
    assert problems == []
    return result


@pytest.mark.parametrize(
    ("api", "pulumi"),
    [
        ("VpcId", "vpcId"),
        ("DNSName", "dnsName"),
        ("ARN", "arn"),
        ("ResourceARN", "resourceARN"),
        ("ID", "id"),
        ("Ipv6CidrBlock", "ipv6CidrBlock"),
        ("nodegroupName", "nodegroupName"),
        ("S3", "s3"),
    ],
)
def test_lower_camel(api: str, pulumi: str) -> None:
    assert lower_camel(api) == pulumi


@example("Ie")
@given(st.from_regex(r"[A-Z][a-z]{1,8}([A-Z][a-z]{1,8}){0,3}", fullmatch=True))
def test_names_find_each_other(api: str) -> None:
    assert find([api, "Other"], lower_camel(api)) == api
    assert find([api, "Other"], lower_camel(api) + "s") == api


def test_an_exact_name_wins_over_one_that_differs_in_number() -> None:
    assert find(["SecurityGroups", "SecurityGroup"], "securityGroup") == "SecurityGroup"
    assert find(["Policies"], "policy") == "Policies"


def test_a_launch_templates_interfaces() -> None:
    template = {
        "networkInterfaces": [
            {
                "networkCardIndex": 1,
                "interfaceType": "efa-only",
                "securityGroups": ["sg-1"],
                "deleteOnTermination": "true",
            }
        ],
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "200", "encrypted": "true"}}
        ],
        "tagSpecifications": [{"resourceType": "instance", "tags": {"Name": "node"}}],
    }
    assert convert(
        "ec2", "CreateLaunchTemplate", "LaunchTemplateData", template, {"securityGroups": "Groups"}
    ) == {
        "NetworkInterfaces": [
            {
                "NetworkCardIndex": 1,
                "InterfaceType": "efa-only",
                "Groups": ["sg-1"],
                "DeleteOnTermination": True,
            }
        ],
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 200, "Encrypted": True}}],
        "TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "Name", "Value": "node"}]}],
    }


def test_an_object_becomes_a_list_of_one_where_the_api_has_a_list() -> None:
    value = {"resources": ["secrets"], "provider": {"keyArn": "arn:aws:kms:…"}}
    assert convert("eks", "CreateCluster", "encryptionConfig", value) == [value]


def test_a_list_of_one_becomes_its_element_where_the_api_has_an_object() -> None:
    value = {"encryptionType": "AES256"}
    assert convert("ecr", "CreateRepository", "encryptionConfiguration", [value]) == value


def test_unknown_values_stay_unknown() -> None:
    value = {"subnetIds": UNKNOWN, "securityGroupIds": ["sg-1", UNKNOWN]}
    assert convert("eks", "CreateCluster", "resourcesVpcConfig", value) == value


def test_a_wrong_key_is_named_with_those_there_are() -> None:
    problems: list[Problem] = []
    shape = model("eks").operation_model("CreateNodegroup").input_shape.members["scalingConfig"]
    to_api(shape, {"minSize": 1, "wantedSize": 2}, {}, "scalingConfig", problems)
    assert problems == [
        Problem(
            "scalingConfig.wantedSize",
            "no such property; scalingConfig has desiredSize, maxSize, minSize",
        )
    ]


def test_from_api() -> None:
    answer = {
        "VpcId": "vpc-1",
        "Tags": [{"Key": "a", "Value": "b"}],
        "CreateTime": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "Groups": [{"GroupId": "sg-1"}],
        "Nothing": None,
    }
    assert from_api(answer, {"Groups": "securityGroups"}) == {
        "vpcId": "vpc-1",
        "tags": {"a": "b"},
        "createTime": "2026-01-02T03:04:05Z",
        "securityGroups": [{"groupId": "sg-1"}],
    }
