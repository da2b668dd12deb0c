"""Changing a security group's rules in place. moto changes IPv4 rules with ports only."""

from __future__ import annotations

from typing import Any

from lab.aws.actions import ApiError, Call, action
from lab.aws.ec2.tags import backend

SOURCES = ("CidrIpv4", "CidrIpv6", "PrefixListId", "ReferencedGroupId")
WITHOUT_PORTS = ("-1", "all")


@action("ec2", "ModifySecurityGroupRules")
def modify_security_group_rules(call: Call) -> dict[str, Any]:
    """All of the rules or none: they are checked before the first is changed."""
    group = backend(call).get_security_group_from_id(call["GroupId"])
    if group is None:
        raise ApiError("InvalidGroup.NotFound", f"The security group '{call['GroupId']}' does not exist")
    changes = []
    for item in call["SecurityGroupRules"]:
        rule = group.get_rule(item["SecurityGroupRuleId"])
        if rule is None:
            raise ApiError(
                "InvalidSecurityGroupRuleId.NotFound",
                f"The security group rule ID '{item['SecurityGroupRuleId']}' does not exist",
            )
        changes.append((rule, item.get("SecurityGroupRule") or {}))
        _check(*changes[-1])
    for rule, wanted in changes:
        _change(rule, wanted)
    return {"Return": True}


def _check(rule: Any, wanted: dict[str, Any]) -> None:
    given = [name for name in SOURCES if wanted.get(name)]
    if len(given) != 1:
        code = "InvalidParameterCombination" if given else "MissingParameter"
        raise ApiError(code, f"The request must contain exactly one of: {', '.join(SOURCES)}")
    if given != [_source(rule)]:
        raise ApiError(
            "InvalidParameterValue",
            f"Invalid rule type for security group rule '{rule.id}'. You may not specify {given[0]} for an existing "
            f"{_source(rule)} rule.",
        )
    if not wanted.get("IpProtocol"):
        raise ApiError(
            "InvalidParameterValue",
            "Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly.",
        )
    ports = (wanted.get("FromPort"), wanted.get("ToPort"))
    if wanted["IpProtocol"] in ("tcp", "udp") and None in ports:
        raise ApiError(
            "InvalidParameterValue",
            "Invalid value for portRange. Must specify both from and to ports with TCP/UDP.",
        )


def _source(rule: Any) -> str:
    if rule.source_group:
        return "ReferencedGroupId"
    if rule.prefix_list_id:
        return "PrefixListId"
    return "CidrIpv6" if rule.cidr_ipv6 else "CidrIpv4"


def _change(rule: Any, wanted: dict[str, Any]) -> None:
    rule.ip_protocol = "-1" if wanted["IpProtocol"] in WITHOUT_PORTS else wanted["IpProtocol"]
    without = rule.ip_protocol == "-1"
    rule.from_port, rule.to_port = (None, None) if without else (wanted.get("FromPort"), wanted.get("ToPort"))
    if wanted.get("CidrIpv4"):
        rule.ip_range["CidrIp"] = wanted["CidrIpv4"]
    elif wanted.get("CidrIpv6"):
        rule.ip_range["CidrIpv6"] = wanted["CidrIpv6"]
    elif wanted.get("ReferencedGroupId"):
        rule.source_group = {**rule.source_group, "GroupId": wanted["ReferencedGroupId"]}
    else:
        rule.prefix_list_id = wanted["PrefixListId"]
    # EC2 replaces the whole rule: a description that isn't given is gone
    rule.ip_range.pop("Description", None)
    if wanted.get("Description"):
        rule.ip_range["Description"] = wanted["Description"]
