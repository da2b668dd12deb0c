"""Diff: what changes, what it replaces, and in which order."""

from __future__ import annotations

from typing import Any

from lab.providers.aws.diff import Changes, diff
from lab.providers.aws.resources import RESOURCES
from lab.providers.aws.wire import UNKNOWN

SUBNET, GROUP, ROLE = "aws:ec2/subnet:Subnet", "aws:eks/nodeGroup:NodeGroup", "aws:iam/role:Role"


def between(token: str, old: dict[str, Any], new: dict[str, Any]) -> Changes:
    return diff(RESOURCES[token], old, new)


def test_nothing_changes() -> None:
    inputs = {"vpcId": "vpc-1", "tags": {"a": "b"}, "tagsAll": {"a": "b"}, "__defaults": []}
    assert between(SUBNET, inputs, dict(inputs)) == Changes()


def test_leaving_out_a_default_is_no_change() -> None:
    assert between(SUBNET, {"mapPublicIpOnLaunch": False, "tags": {}}, {}) == Changes()
    assert between(SUBNET, {"mapPublicIpOnLaunch": True}, {}).properties == ["mapPublicIpOnLaunch"]


def test_leaving_out_what_aws_chose_is_no_change() -> None:
    assert between(SUBNET, {"availabilityZone": "us-east-1a"}, {}) == Changes()


def test_a_replacement_says_which_input_forces_it() -> None:
    changes = between(SUBNET, {"vpcId": "vpc-1", "tags": {"a": "1"}}, {"vpcId": UNKNOWN, "tags": {"a": "2"}})
    assert changes.replaces == ["vpcId"]
    assert changes.details == {"vpcId": ("UPDATE", True), "tags.a": ("UPDATE", False)}


def test_details_point_at_the_innermost_difference() -> None:
    changes = between(
        GROUP,
        {
            "scalingConfig": {"minSize": 1, "desiredSize": 1},
            "labels": {"example.com/a": "1", "b": "1"},
            "taints": [{"key": "k", "effect": "NO_SCHEDULE"}],
        },
        {
            "scalingConfig": {"minSize": 1, "desiredSize": 2},
            "labels": {"example.com/a": "2"},
            "taints": [{"key": "k", "effect": "NO_EXECUTE"}],
        },
    )
    assert changes.details == {
        "scalingConfig.desiredSize": ("UPDATE", False),
        'labels["example.com/a"]': ("UPDATE", False),
        "labels.b": ("DELETE", False),
        "taints[0].effect": ("UPDATE", False),
    }


def test_a_name_that_the_program_chose_is_freed_first() -> None:
    old = {"name": "mine", "path": "/", "__defaults": []}
    assert between(ROLE, old, {**old, "path": "/a/"}).delete_before_replace
    made_up = {**old, "__defaults": ["name"]}
    assert not between(ROLE, made_up, {**made_up, "path": "/a/"}).delete_before_replace
    assert not between(ROLE, old, {**old, "path": "/a/", "name": "other"}).delete_before_replace


def test_some_types_are_deleted_first_whatever_their_name() -> None:
    token = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    assert between(token, {"routeTableId": "a"}, {"routeTableId": "b"}).delete_before_replace
