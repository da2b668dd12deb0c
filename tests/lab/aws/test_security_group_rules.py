"""Rules of a security group are changed in place, whatever their source, and whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.aws.support import Network, refused

SOURCES = ("CidrIpv4", "CidrIpv6", "PrefixListId", "ReferencedGroupId")


@pytest.fixture
def sources(ec2: Any, network: Network) -> dict[str, dict[str, Any]]:
    """Two values of each kind of source, as ModifySecurityGroupRules takes them."""
    groups = [
        ec2.create_security_group(GroupName=f"source-{n}", Description="d", VpcId=network.vpc)["GroupId"]
        for n in (1, 2)
    ]
    lists = [each["PrefixListId"] for each in ec2.describe_prefix_lists()["PrefixLists"]][:2]
    values = (("10.0.0.0/8", "10.1.0.0/16"), ("fd00::/8", "fd00:1::/32"), lists, groups)
    return {name: {"old": old, "new": new} for name, (old, new) in zip(SOURCES, values, strict=True)}


@pytest.fixture
def group(ec2: Any, network: Network) -> str:
    """A group without a rule for what comes in."""
    made = ec2.create_security_group(GroupName="changing", Description="d", VpcId=network.vpc)
    group: str = made["GroupId"]
    return group


def permission(source: str, value: str) -> dict[str, Any]:
    """As AuthorizeSecurityGroupIngress takes it."""
    ranges = {
        "CidrIpv4": {"IpRanges": [{"CidrIp": value, "Description": "first"}]},
        "CidrIpv6": {"Ipv6Ranges": [{"CidrIpv6": value}]},
        "PrefixListId": {"PrefixListIds": [{"PrefixListId": value}]},
        "ReferencedGroupId": {"UserIdGroupPairs": [{"GroupId": value}]},
    }[source]
    return {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, **ranges}


def only_rule(ec2: Any, group: str) -> dict[str, Any]:
    answer = ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group]}])
    (rule,) = [rule for rule in answer["SecurityGroupRules"] if not rule["IsEgress"]]
    return rule


@pytest.mark.parametrize("source", SOURCES)
def test_a_rule_is_changed_in_place(
    ec2: Any, group: str, sources: dict[str, dict[str, Any]], source: str
) -> None:
    old, new = sources[source]["old"], sources[source]["new"]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission(source, old)])
    rule = only_rule(ec2, group)["SecurityGroupRuleId"]
    wanted = {"IpProtocol": "-1", source: new}
    ec2.modify_security_group_rules(
        GroupId=group, SecurityGroupRules=[{"SecurityGroupRuleId": rule, "SecurityGroupRule": wanted}]
    )
    changed = only_rule(ec2, group)
    assert changed["SecurityGroupRuleId"] == rule
    assert changed["IpProtocol"] == "-1" and changed.get("FromPort") in (None, -1)
    assert not changed.get("Description")
    found = changed["ReferencedGroupInfo"]["GroupId"] if source == "ReferencedGroupId" else changed[source]
    assert found == new


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"IpProtocol": "tcp", "CidrIpv4": "10.0.0.0/8"}, "InvalidParameterValue"),
        ({"CidrIpv4": "10.0.0.0/8", "FromPort": 1, "ToPort": 2}, "InvalidParameterValue"),
        ({"IpProtocol": "-1"}, "MissingParameter"),
        ({"IpProtocol": "-1", "CidrIpv4": "10.0.0.0/8", "CidrIpv6": "::/0"}, "InvalidParameterCombination"),
        ({"IpProtocol": "-1", "CidrIpv6": "::/0"}, "InvalidParameterValue"),
    ],
    ids=["no ports", "no protocol", "no source", "two sources", "another kind of source"],
)
def test_what_ec2_refuses(ec2: Any, group: str, wanted: dict[str, Any], code: str) -> None:
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission("CidrIpv4", "10.0.0.0/8")])
    before = only_rule(ec2, group)
    rules = [{"SecurityGroupRuleId": before["SecurityGroupRuleId"], "SecurityGroupRule": wanted}]
    assert refused(ec2.modify_security_group_rules, GroupId=group, SecurityGroupRules=rules) == code
    assert only_rule(ec2, group) == before
