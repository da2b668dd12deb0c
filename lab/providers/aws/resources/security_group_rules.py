"""EC2: security group rules that are resources of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lab.providers.aws.operation import Operation, search
from lab.providers.aws.resources.ec2_common import ec2_tags, tagged
from lab.providers.aws.table import Call, Property, Resource, Step, inputs, out

_SOURCES = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")


def _rule_rules(given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if sum(given.get(name) is not None for name in _SOURCES) != 1:
        yield _SOURCES[0], f"exactly one of {', '.join(_SOURCES)} has to be set"
    protocol = given.get("ipProtocol")
    if protocol in ("-1", "all") and (given.get("fromPort") is not None or given.get("toPort") is not None):
        yield "fromPort", "can't be set with ipProtocol -1, which means all protocols and ports"


def _single_permission(operation: Operation) -> dict[str, Any]:
    given = operation.inputs
    permission: dict[str, Any] = {"IpProtocol": str(given["ipProtocol"])}
    if given.get("fromPort") is not None:
        permission["FromPort"] = int(given["fromPort"])
    if given.get("toPort") is not None:
        permission["ToPort"] = int(given["toPort"])
    description = {"Description": given["description"]} if given.get("description") else {}
    for name, (member, key) in {
        "cidrIpv4": ("IpRanges", "CidrIp"),
        "cidrIpv6": ("Ipv6Ranges", "CidrIpv6"),
        "prefixListId": ("PrefixListIds", "PrefixListId"),
        "referencedSecurityGroupId": ("UserIdGroupPairs", "GroupId"),
    }.items():
        if given.get(name):
            permission[member] = [{key: given[name], **description}]
    return permission


def _authorize(word: str) -> Callable[[Operation], str]:
    def create(operation: Operation) -> str:
        call = f"AuthorizeSecurityGroup{word}"
        operation.created = operation.call(
            call,
            GroupId=operation.inputs["securityGroupId"],
            IpPermissions=[_single_permission(operation)],
            **tagged(operation, call),
        )
        return str(search("SecurityGroupRules[0].SecurityGroupRuleId", operation.created))

    return create


def _modify_rule(operation: Operation) -> None:
    given = operation.inputs
    rule = {
        "IpProtocol": str(given["ipProtocol"]),
        "FromPort": int(given.get("fromPort", -1)),
        "ToPort": int(given.get("toPort", -1)),
        "CidrIpv4": given.get("cidrIpv4"),
        "CidrIpv6": given.get("cidrIpv6"),
        "PrefixListId": given.get("prefixListId"),
        "ReferencedGroupId": given.get("referencedSecurityGroupId"),
        "Description": given.get("description"),
    }
    operation.call(
        "ModifySecurityGroupRules",
        GroupId=given["securityGroupId"],
        SecurityGroupRules=[
            {
                "SecurityGroupRuleId": operation.id,
                "SecurityGroupRule": {key: value for key, value in rule.items() if value is not None},
            }
        ],
    )


def _rule_resource(direction: str) -> Resource:
    word = "Ingress" if direction == "ingress" else "Egress"
    return Resource(
        f"aws:vpc/securityGroup{word}Rule:SecurityGroup{word}Rule",
        service="ec2",
        id="",
        inputs=[
            Property("securityGroupId", read="GroupId", replaces=True),
            Property("ipProtocol"),
            *inputs("fromPort", "toPort", "cidrIpv4", "cidrIpv6", "prefixListId", "description"),
            Property("referencedSecurityGroupId", read="ReferencedGroupInfo.GroupId"),
        ],
        outputs=[out("arn", "SecurityGroupRuleArn"), out("securityGroupRuleId")],
        create=_authorize(word),
        read=Call(
            "DescribeSecurityGroupRules", {"SecurityGroupRuleIds": ["{id}"]}, result="SecurityGroupRules[0]"
        ),
        delete=Call(
            f"RevokeSecurityGroup{word}", {"GroupId": "{securityGroupId}", "SecurityGroupRuleIds": ["{id}"]}
        ),
        steps=[
            Step(
                ("ipProtocol", "fromPort", "toPort", *_SOURCES, "description"), _modify_rule, on_create=False
            )
        ],
        extend=lambda operation, description: {
            # EC2 says -1 for "any port"; the program leaves those out.
            **{
                name: None if description.get(member) == -1 else description.get(member)
                for name, member in (("fromPort", "FromPort"), ("toPort", "ToPort"))
            },
            "arn": description.get("SecurityGroupRuleArn")
            or operation.arn("ec2", f"security-group-rule/{operation.id}"),
        },
        check=_rule_rules,
        missing=[
            "InvalidSecurityGroupRuleId.NotFound",
            "InvalidGroup.NotFound",
            "InvalidPermission.NotFound",
        ],
        tags=ec2_tags("security-group-rule"),
    )


RESOURCES = [_rule_resource("ingress"), _rule_resource("egress")]
