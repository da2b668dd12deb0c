"""EC2: security groups, with the rules that are written inside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lab.providers.aws.operation import Operation, search
from lab.providers.aws.resources.ec2_common import ec2_tags, tagged, where
from lab.providers.aws.table import Autoname, Call, Property, Resource, Step, inputs, out
from lab.providers.aws.wire import has_unknown

_RULES = ("ingress", "egress")
_OWN_SOURCES = {
    "cidrBlocks": ("IpRanges", "CidrIp"),
    "ipv6CidrBlocks": ("Ipv6Ranges", "CidrIpv6"),
    "prefixListIds": ("PrefixListIds", "PrefixListId"),
    "securityGroups": ("UserIdGroupPairs", "GroupId"),
}


# Rules written inside a group


def _permission(rule: Mapping[str, Any], group: str) -> dict[str, Any]:
    """pulumi-aws's rule object as EC2's IpPermission."""
    protocol = "-1" if str(rule["protocol"]).lower() in ("-1", "all") else str(rule["protocol"])
    permission: dict[str, Any] = {"IpProtocol": protocol}
    if protocol != "-1":
        permission.update(FromPort=int(rule["fromPort"]), ToPort=int(rule["toPort"]))
    description = {"Description": rule["description"]} if rule.get("description") else {}
    sources = {name: list(rule.get(name) or []) for name in _OWN_SOURCES}
    if rule.get("self"):
        sources["securityGroups"].append(group)
    for name, (member, key) in _OWN_SOURCES.items():
        if sources[name]:
            permission[member] = [{key: source, **description} for source in sources[name]]
    return permission


def _rule(permission: Mapping[str, Any], group: str) -> dict[str, Any]:
    """The reverse: an IpPermission as pulumi-aws's rule object."""
    rule: dict[str, Any] = {
        "protocol": permission["IpProtocol"],
        "fromPort": permission.get("FromPort", 0),
        "toPort": permission.get("ToPort", 0),
        "self": False,
    }
    for name, (member, key) in _OWN_SOURCES.items():
        sources = permission.get(member, [])
        rule["self"] = rule["self"] or (
            name == "securityGroups" and any(source[key] == group for source in sources)
        )
        rule[name] = sorted(source[key] for source in sources if source[key] != group)
        for source in sources:
            if source.get("Description"):
                rule["description"] = source["Description"]
    return rule


def _replace_rules(operation: Operation) -> None:
    """Make the group's rules the ones that the program lists, in both directions."""
    group = _describe_group(operation, operation.id)
    for direction, member in (("ingress", "IpPermissions"), ("egress", "IpPermissionsEgress")):
        wanted = operation.inputs.get(direction)
        # Inline rules that the program doesn't mention may be rules with a resource of their own.
        if wanted is None and direction not in operation.changed and not operation.created:
            continue
        have = group[member]
        want = [_permission(rule, operation.id) for rule in wanted or []]
        word = direction.title()
        if have:
            operation.call(f"RevokeSecurityGroup{word}", GroupId=operation.id, IpPermissions=have)
        if want:
            operation.call(f"AuthorizeSecurityGroup{word}", GroupId=operation.id, IpPermissions=want)


def _describe_group(operation: Operation, group: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = operation.call("DescribeSecurityGroups", GroupIds=[group])["SecurityGroups"][0]
    return found


def _group_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "arn": description.get("SecurityGroupArn") or operation.arn("ec2", f"security-group/{operation.id}"),
        "ingress": [_rule(each, operation.id) for each in description.get("IpPermissions", [])],
        "egress": [_rule(each, operation.id) for each in description.get("IpPermissionsEgress", [])],
    }


def _inline_rules(given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    allowed = {"protocol", "fromPort", "toPort", "self", "description", *_OWN_SOURCES}
    for direction in _RULES:
        rules = given.get(direction)
        for index, rule in enumerate(rules if isinstance(rules, list) else []):
            if not isinstance(rule, Mapping):
                continue
            for name in sorted(set(rule) - allowed - {"__defaults"}):
                yield (
                    f"{direction}[{index}].{name}",
                    f"no such property; a rule has {', '.join(sorted(allowed))}",
                )
            for name in ("protocol", "fromPort", "toPort"):
                if rule.get(name) is None:
                    yield f"{direction}[{index}].{name}", "is required"
            sources = [rule.get(name) for name in (*_OWN_SOURCES, "self")]
            if not any(sources) and not has_unknown(rule):
                yield f"{direction}[{index}]", "has no source: cidrBlocks, securityGroups, self, …"


def _empty_egress(operation: Operation) -> str:
    """Like terraform, start from a group with no rules: EC2's own allow-all egress rule goes."""
    call = Call(
        "CreateSecurityGroup", {"GroupName": "{name}", "Description": "{description}", "VpcId": "{vpcId}"}
    )
    operation.created = operation.call(
        "CreateSecurityGroup", **operation.parameters(call, []), **tagged(operation, "CreateSecurityGroup")
    )
    operation.id = operation.created["GroupId"]
    _replace_rules(operation)
    return operation.id


def _delete_group(operation: Operation) -> None:
    if operation.state.get("revokeRulesOnDelete"):
        group = _describe_group(operation, operation.id)
        for word, member in (("Ingress", "IpPermissions"), ("Egress", "IpPermissionsEgress")):
            if group[member]:
                operation.call(
                    f"RevokeSecurityGroup{word}", GroupId=operation.id, IpPermissions=group[member]
                )
    operation.call("DeleteSecurityGroup", GroupId=operation.id)


_GROUP_OUTPUTS = [out("arn"), out("ownerId")]
_READ_GROUP = Call("DescribeSecurityGroups", {"GroupIds": ["{id}"]}, result="SecurityGroups[0]")
_GROUP_MISSING = ["InvalidGroup.NotFound", "InvalidGroupId.NotFound"]

SECURITY_GROUP = Resource(
    "aws:ec2/securityGroup:SecurityGroup",
    service="ec2",
    id="GroupId",
    inputs=[
        Property("name", api="GroupName", replaces=True),
        Property("namePrefix", replaces=True, local=True),
        Property("description", replaces=True, default="Managed by Pulumi"),
        Property("vpcId", replaces=True, computed=True),
        *inputs(*_RULES, computed=True),
        Property("revokeRulesOnDelete", default=False, local=True),
    ],
    outputs=_GROUP_OUTPUTS,
    create=_empty_egress,
    read=_READ_GROUP,
    delete=_delete_group,
    steps=[
        Step(_RULES, _replace_rules, on_create=False),
        Step(["revokeRulesOnDelete"], lambda operation: None),
    ],
    extend=_group_properties,
    check=_inline_rules,
    missing=_GROUP_MISSING,
    tags=ec2_tags("security-group"),
    autoname=Autoname(prefix="namePrefix"),
)


def _adopt_default_group(operation: Operation) -> str:
    """Every VPC has one already: take it over, with the rules that the program gives and no others."""
    group = search(
        "SecurityGroups[0].GroupId",
        operation.call(
            "DescribeSecurityGroups",
            Filters=[*where("group-name", "default"), *where("vpc-id", operation.inputs["vpcId"])],
        ),
    )
    operation.id = group
    operation.created = {"GroupId": group}
    _replace_rules(operation)
    return str(group)


DEFAULT_SECURITY_GROUP = Resource(
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
    service="ec2",
    id="GroupId",
    inputs=[
        Property("vpcId", replaces=True, computed=True),
        *inputs(*_RULES, default=[]),
        Property("revokeRulesOnDelete", default=False, local=True),
    ],
    outputs=[*_GROUP_OUTPUTS, out("name", "GroupName"), out("description")],
    create=_adopt_default_group,
    read=_READ_GROUP,
    delete=None,  # it goes with its VPC
    steps=[
        Step(_RULES, _replace_rules, on_create=False),
        Step(["revokeRulesOnDelete"], lambda operation: None),
    ],
    extend=_group_properties,
    check=_inline_rules,
    missing=_GROUP_MISSING,
    tags=replace(ec2_tags("security-group"), on_create=False),
)


RESOURCES = [SECURITY_GROUP, DEFAULT_SECURITY_GROUP]
