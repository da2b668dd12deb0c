"""Invokes: questions that a program asks while it runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from lab.providers.aws.cloud import Cloud
from lab.providers.aws.convert import from_api
from lab.providers.aws.operation import Failed

Function = Callable[[Cloud, Mapping[str, Any]], Mapping[str, Any]]


def _caller_identity(cloud: Cloud, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    found = cloud.client("sts").get_caller_identity()
    return {
        "id": found["Account"],
        "accountId": found["Account"],
        "arn": found["Arn"],
        "userId": found["UserId"],
    }


def _partition(cloud: Cloud, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    suffix = "amazonaws.com.cn" if cloud.partition == "aws-cn" else "amazonaws.com"
    return {
        "id": cloud.partition,
        "partition": cloud.partition,
        "dnsSuffix": suffix,
        "reverseDnsPrefix": ".".join(reversed(suffix.split("."))),
    }


def _region(cloud: Cloud, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    region = arguments.get("region") or arguments.get("name") or cloud.settings.region
    return {
        "id": region,
        "name": region,
        "region": region,
        "description": region,
        "endpoint": f"ec2.{region}.amazonaws.com",
    }


def _filters(arguments: Mapping[str, Any]) -> dict[str, Any]:
    given = [{"Name": each["name"], "Values": each["values"]} for each in arguments.get("filters") or []]
    if arguments.get("state"):
        given.append({"Name": "state", "Values": [arguments["state"]]})
    return {"Filters": given} if given else {}


def _availability_zones(cloud: Cloud, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    region = arguments.get("region") or cloud.settings.region
    found = cloud.client("ec2", region).describe_availability_zones(
        **_filters(arguments), AllAvailabilityZones=bool(arguments.get("allAvailabilityZones"))
    )["AvailabilityZones"]
    names = set(arguments.get("excludeNames") or [])
    ids = set(arguments.get("excludeZoneIds") or [])
    kept = [zone for zone in found if zone["ZoneName"] not in names and zone["ZoneId"] not in ids]
    kept.sort(key=lambda zone: str(zone["ZoneName"]))
    return {
        **arguments,
        "id": region,
        "region": region,
        "names": [zone["ZoneName"] for zone in kept],
        "zoneIds": [zone["ZoneId"] for zone in kept],
        "groupNames": sorted({zone.get("GroupName", region) for zone in kept}),
    }


def _availability_zone(cloud: Cloud, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    query = _filters(arguments)
    if arguments.get("name"):
        query["ZoneNames"] = [arguments["name"]]
    if arguments.get("zoneId"):
        query["ZoneIds"] = [arguments["zoneId"]]
    found = cloud.client("ec2").describe_availability_zones(**query)["AvailabilityZones"]
    if len(found) != 1:
        raise Failed(f"getAvailabilityZone: {len(found)} zones match {dict(arguments)}")
    zone = found[0]
    return {
        "id": zone["ZoneName"],
        "name": zone["ZoneName"],
        "zoneId": zone["ZoneId"],
        "region": zone["RegionName"],
        "nameSuffix": zone["ZoneName"].removeprefix(zone["RegionName"]),
        "state": zone["State"],
        "groupName": zone.get("GroupName", zone["RegionName"]),
        "networkBorderGroup": zone.get("NetworkBorderGroup", zone["RegionName"]),
        "optInStatus": zone.get("OptInStatus", "opt-in-not-required"),
    }


def _policy_document(cloud: Cloud, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """terraform's aws_iam_policy_document: lists of one become their element, keys go by name."""
    statements = [_statement(each) for each in arguments.get("statements") or []]
    document: dict[str, Any] = {"Version": arguments.get("version") or "2012-10-17"}
    if arguments.get("policyId"):
        document["Id"] = arguments["policyId"]
    for source in (
        *(arguments.get("sourcePolicyDocuments") or []),
        *(arguments.get("overridePolicyDocuments") or []),
    ):
        statements.extend(json.loads(source)["Statement"])
    document["Statement"] = statements
    text = json.dumps(document, indent=2)
    return {**arguments, "id": str(abs(hash(text))), "json": text, "minifiedJson": json.dumps(document)}


def _statement(given: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"Effect": given.get("effect") or "Allow"}
    if given.get("sid"):
        result = {"Sid": given["sid"], **result}
    for name, member in {
        "actions": "Action",
        "notActions": "NotAction",
        "resources": "Resource",
        "notResources": "NotResource",
    }.items():
        if given.get(name):
            result[member] = _one_or_more(given[name])
    for name, member in {"principals": "Principal", "notPrincipals": "NotPrincipal"}.items():
        if given.get(name):
            found: dict[str, Any] = {}
            for each in given[name]:
                found.setdefault(each["type"], []).extend(each["identifiers"])
            anyone = found.get("*") == ["*"]
            result[member] = "*" if anyone else {kind: _one_or_more(ids) for kind, ids in found.items()}
    for each in given.get("conditions") or []:
        tests = result.setdefault("Condition", {}).setdefault(each["test"], {})
        tests[each["variable"]] = _one_or_more(each["values"])
    return result


def _one_or_more(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else sorted(values)


def _cluster(cloud: Cloud, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    found = cloud.client("eks").describe_cluster(name=arguments["name"])["cluster"]
    state = from_api(found)
    return {
        **state,
        "id": found["name"],
        "vpcConfig": state["resourcesVpcConfig"],
        "certificateAuthorities": [state.get("certificateAuthority", {})],
        "identities": [{"oidcs": [state.get("identity", {}).get("oidc", {})]}],
    }


def _addon_version(cloud: Cloud, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The default version of an add-on for a Kubernetes version, or the newest one."""
    name, kubernetes = arguments["addonName"], arguments["kubernetesVersion"]
    found = cloud.client("eks").describe_addon_versions(addonName=name, kubernetesVersion=kubernetes)[
        "addons"
    ]
    versions = found[0]["addonVersions"] if found else []
    if not arguments.get("mostRecent"):
        versions = [
            each
            for each in versions
            if any(fit.get("defaultVersion") for fit in each.get("compatibilities", []))
        ]
    if not versions:
        raise Failed(f"getAddonVersion: there is no version of {name} for Kubernetes {kubernetes}")
    version = versions[0]["addonVersion"]
    return {**arguments, "id": name, "version": version, "region": cloud.settings.region}


FUNCTIONS: dict[str, Function] = {
    "aws:index/getCallerIdentity:getCallerIdentity": _caller_identity,
    "aws:index/getPartition:getPartition": _partition,
    "aws:index/getRegion:getRegion": _region,
    "aws:index/getAvailabilityZones:getAvailabilityZones": _availability_zones,
    "aws:index/getAvailabilityZone:getAvailabilityZone": _availability_zone,
    "aws:iam/getPolicyDocument:getPolicyDocument": _policy_document,
    "aws:eks/getCluster:getCluster": _cluster,
    "aws:eks/getAddonVersion:getAddonVersion": _addon_version,
}
