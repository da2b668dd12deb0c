"""EC2, VPC endpoints and flow logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lab.providers.aws.operation import Failed, Operation, search
from lab.providers.aws.resources.ec2_common import ec2_tags, tagged, where
from lab.providers.aws.table import Call, Property, Resource, Status, Step, inputs, out

_MEMBERSHIPS = {
    "routeTableIds": ("AddRouteTableIds", "RemoveRouteTableIds"),
    "subnetIds": ("AddSubnetIds", "RemoveSubnetIds"),
    "securityGroupIds": ("AddSecurityGroupIds", "RemoveSecurityGroupIds"),
}


def _modify(operation: Operation) -> None:
    """Memberships change by what to add and what to remove, the rest by its new value."""
    parameters: dict[str, Any] = {}
    for name, (add, remove) in _MEMBERSHIPS.items():
        if name in operation.changed:
            before, after = set(operation.state.get(name) or []), set(operation.inputs.get(name) or [])
            if after - before:
                parameters[add] = sorted(after - before)
            if before - after:
                parameters[remove] = sorted(before - after)
    if "policy" in operation.changed:
        policy = operation.inputs.get("policy")
        parameters.update({"PolicyDocument": policy} if policy else {"ResetPolicy": True})
    if "privateDnsEnabled" in operation.changed:
        parameters["PrivateDnsEnabled"] = bool(operation.inputs.get("privateDnsEnabled"))
    if "dnsOptions" in operation.changed or "ipAddressType" in operation.changed:
        plain = [prop for prop in VPC_ENDPOINT.inputs if prop.name in ("dnsOptions", "ipAddressType")]
        parameters.update(operation.parameters(Call("ModifyVpcEndpoint"), plain))
    operation.call("ModifyVpcEndpoint", VpcEndpointId=operation.id, **parameters)


def _delete(operation: Operation) -> None:
    answer = operation.call("DeleteVpcEndpoints", VpcEndpointIds=[operation.id])
    for failure in answer.get("Unsuccessful", []):
        error = failure["Error"]
        if "NotFound" not in error["Code"]:
            raise Failed(f"DeleteVpcEndpoints: {error['Code']}: {error['Message']}")


def _endpoint_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    found: dict[str, Any] = {
        "arn": operation.arn("ec2", f"vpc-endpoint/{operation.id}"),
        "securityGroupIds": [group["GroupId"] for group in description.get("Groups", [])],
    }
    if description.get("VpcEndpointType") == "Gateway":
        lists = operation.call(
            "DescribePrefixLists", Filters=where("prefix-list-name", description["ServiceName"])
        )
        found["prefixListId"] = search("PrefixLists[0].PrefixListId", lists)
        found["cidrBlocks"] = search("PrefixLists[0].Cidrs", lists)
    policy = description.get("PolicyDocument")
    found["policy"] = policy if isinstance(policy, str) or policy is None else json.dumps(policy)
    return found


VPC_ENDPOINT = Resource(
    "aws:ec2/vpcEndpoint:VpcEndpoint",
    service="ec2",
    id="VpcEndpoint.VpcEndpointId",
    inputs=[
        *inputs("vpcId", "serviceName", replaces=True),
        Property("vpcEndpointType", replaces=True, default="Gateway"),
        Property("privateDnsEnabled", computed=True),
        Property("policy", api="PolicyDocument", json=True, computed=True),
        *inputs(*_MEMBERSHIPS, computed=True),
        *inputs("dnsOptions", "ipAddressType", computed=True),
    ],
    outputs=[
        out("arn"),
        out("state"),
        out("ownerId"),
        out("networkInterfaceIds"),
        out("dnsEntries"),
        out("prefixListId"),
        out("cidrBlocks"),
        out("requesterManaged"),
    ],
    create=Call("CreateVpcEndpoint"),
    read=Call("DescribeVpcEndpoints", {"VpcEndpointIds": ["{id}"]}, result="VpcEndpoints[0]"),
    delete=_delete,
    steps=[
        Step(
            [*_MEMBERSHIPS, "policy", "privateDnsEnabled", "dnsOptions", "ipAddressType"],
            _modify,
            on_create=False,
        )
    ],
    extend=_endpoint_properties,
    missing=["InvalidVpcEndpointId.NotFound"],
    status=Status(
        "State",
        ready=frozenset({"available", "Available", "pendingAcceptance"}),
        failed=frozenset({"failed", "Failed", "rejected"}),
        gone=frozenset({"deleted", "Deleted"}),
        minutes=10,
    ),
    tags=ec2_tags("vpc-endpoint"),
)

_SOURCES = {"vpcId": "VPC", "subnetId": "Subnet", "eniId": "NetworkInterface"}


def _source_rules(given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if sum(given.get(name) is not None for name in _SOURCES) != 1:
        yield "vpcId", f"exactly one of {', '.join(_SOURCES)} has to be set"


def _source(operation: Operation) -> dict[str, Any]:
    name = next(name for name in _SOURCES if operation.inputs.get(name))
    return {"ResourceIds": [operation.inputs[name]], "ResourceType": _SOURCES[name]}


def _log_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    resource = description.get("ResourceId", "")
    kind = (
        "eniId" if resource.startswith("eni-") else "subnetId" if resource.startswith("subnet-") else "vpcId"
    )
    return {
        **dict.fromkeys(_SOURCES),
        kind: resource,
        "arn": operation.arn("ec2", f"vpc-flow-log/{operation.id}"),
        "logDestination": description.get("LogDestination") or operation.value("logDestination"),
    }


def _create_log(operation: Operation) -> str:
    parameters = operation.parameters(Call("CreateFlowLogs", more=_source), FLOW_LOG.inputs)
    operation.created = operation.call("CreateFlowLogs", **parameters, **tagged(operation, "CreateFlowLogs"))
    for failure in operation.created.get("Unsuccessful", []):
        error = failure["Error"]
        raise Failed(f"CreateFlowLogs: {error['Code']}: {error['Message']}")
    return str(operation.created["FlowLogIds"][0])


FLOW_LOG = Resource(
    "aws:ec2/flowLog:FlowLog",
    service="ec2",
    id="",
    inputs=[
        *inputs(*_SOURCES, replaces=True),
        Property("trafficType", replaces=True),
        Property("logDestinationType", replaces=True, default="cloud-watch-logs"),
        *inputs("logDestination", "logFormat", replaces=True, computed=True),
        Property("iamRoleArn", api="DeliverLogsPermissionArn", replaces=True),
        Property("deliverCrossAccountRole", replaces=True),
        Property("maxAggregationInterval", replaces=True, default=600),
        Property("destinationOptions", replaces=True),
    ],
    outputs=[out("arn")],
    create=_create_log,
    checked_by="CreateFlowLogs",
    read=Call("DescribeFlowLogs", {"FlowLogIds": ["{id}"]}, result="FlowLogs[0]"),
    delete=Call("DeleteFlowLogs", {"FlowLogIds": ["{id}"]}),
    extend=_log_properties,
    check=_source_rules,
    missing=["InvalidFlowLogId.NotFound"],
    eventual=["Unable to assume given IAM role", "Access Denied for LogDestination"],
    tags=ec2_tags("vpc-flow-log"),
)

RESOURCES = [VPC_ENDPOINT, FLOW_LOG]
