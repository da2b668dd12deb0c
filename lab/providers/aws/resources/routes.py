"""EC2, network: route tables, routes, and which subnet uses which."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lab.providers.aws.operation import Failed, Operation, search
from lab.providers.aws.resources.ec2_common import ec2_tags, where
from lab.providers.aws.table import Call, Property, Resource, Step, inputs, out
from lab.providers.aws.wire import Unknown

ROUTE_TABLE = Resource(
    "aws:ec2/routeTable:RouteTable",
    service="ec2",
    id="RouteTable.RouteTableId",
    inputs=[Property("vpcId", replaces=True)],
    outputs=[out("arn"), out("ownerId")],
    create=Call("CreateRouteTable"),
    read=Call("DescribeRouteTables", {"RouteTableIds": ["{id}"]}, result="RouteTables[0]"),
    delete=Call("DeleteRouteTable", {"RouteTableId": "{id}"}),
    extend=lambda operation, description: {
        "arn": operation.arn("ec2", f"route-table/{operation.id}"),
        "ownerId": description.get("OwnerId") or operation.cloud.account,
    },
    missing=["InvalidRouteTableID.NotFound"],
    tags=ec2_tags("route-table"),
)

_DESTINATIONS = ("destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId")
_TARGETS = (
    "gatewayId",
    "natGatewayId",
    "networkInterfaceId",
    "transitGatewayId",
    "vpcPeeringConnectionId",
    "egressOnlyGatewayId",
    "vpcEndpointId",
)


def _one_of(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]:
    def rule(given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
        if sum(given.get(name) is not None for name in names) != 1:
            yield names[0], f"exactly one of {', '.join(names)} has to be set"

    return rule


def _route_rules(given: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    if not any(isinstance(value, Unknown) for value in given.values()):
        yield from _one_of(_DESTINATIONS)(given)
        yield from _one_of(_TARGETS)(given)


def _destination(operation: Operation) -> tuple[str, str]:
    for name in _DESTINATIONS:
        if operation.value(name):
            return name, operation.value(name)
    # An import: pulumi-aws takes "rtb-…_10.0.0.0/8" as the id of one.
    _, _, destination = operation.id.partition("_")
    if not destination:
        raise Failed(
            f"to import a route, give its table and destination as rtb-…_10.0.0.0/8, not {operation.id!r}"
        )
    return _DESTINATIONS[1 if ":" in destination else 2 if destination.startswith("pl-") else 0], destination


def _create_route(operation: Operation) -> str:
    operation.created = operation.run(Call("CreateRoute"), ROUTE.inputs)
    _, destination = _destination(operation)
    # terraform's id: the table and the CRC-32 of the destination (internal/service/ec2/id.go)
    return f"r-{operation.inputs['routeTableId']}{zlib.crc32(destination.encode())}"


def _read_route(operation: Operation) -> Mapping[str, Any] | None:
    name, destination = _destination(operation)
    table = operation.value("routeTableId") or operation.id.partition("_")[0]
    routes = (
        search("RouteTables[0].Routes", operation.call("DescribeRouteTables", RouteTableIds=[table])) or []
    )
    member = name[0].upper() + name[1:]
    route = next((each for each in routes if each.get(member) == destination), None)
    return {**route, "RouteTableId": table} if route else None


def _route_call(operation_name: str) -> Callable[[Operation], None]:
    def act(operation: Operation) -> None:
        name, destination = _destination(operation)
        where_to = {
            target: operation.inputs.get(target) for target in _TARGETS if operation.inputs.get(target)
        }
        operation.call(
            operation_name,
            RouteTableId=operation.value("routeTableId"),
            **{
                key[0].upper() + key[1:]: value
                for key, value in {name: destination, **where_to}.items()
                if operation_name != "DeleteRoute" or key == name
            },
        )

    return act


ROUTE = Resource(
    "aws:ec2/route:Route",
    service="ec2",
    id="",
    inputs=[
        *inputs("routeTableId", *_DESTINATIONS, replaces=True),
        *inputs(*(target for target in _TARGETS if target != "egressOnlyGatewayId")),
        Property("egressOnlyGatewayId", api="EgressOnlyInternetGatewayId"),
    ],
    outputs=[out("state"), out("origin"), out("instanceId"), out("instanceOwnerId")],
    create=_create_route,
    checked_by="CreateRoute",
    read=_read_route,
    delete=_route_call("DeleteRoute"),
    steps=[Step(_TARGETS, _route_call("ReplaceRoute"), on_create=False)],
    check=_route_rules,
    missing=["InvalidRouteTableID.NotFound", "InvalidRoute.NotFound"],
    # A route needs its gateway to be there; a NAT gateway's id is visible a little later than its creation.
    eventual=["InvalidNatGatewayID.NotFound", "InvalidInternetGatewayID.NotFound"],
)


def _read_association(operation: Operation) -> Mapping[str, Any] | None:
    answer = operation.call(
        "DescribeRouteTables", Filters=where("association.route-table-association-id", operation.id)
    )
    found: Mapping[str, Any] | None = search(
        f"RouteTables[].Associations[] | [?RouteTableAssociationId=='{operation.id}'] | [0]", answer
    )
    return found


ROUTE_TABLE_ASSOCIATION = Resource(
    "aws:ec2/routeTableAssociation:RouteTableAssociation",
    service="ec2",
    id="AssociationId",
    # A new table would give the association a new id, which an update can't: so it's replaced, and as a
    # subnet has one table at a time, deleted first.
    inputs=inputs("subnetId", "gatewayId", "routeTableId", replaces=True),
    create=Call("AssociateRouteTable"),
    read=_read_association,
    delete=Call("DisassociateRouteTable", {"AssociationId": "{id}"}),
    missing=["InvalidAssociationID.NotFound"],
    delete_before_replace=True,
)

RESOURCES = [ROUTE_TABLE, ROUTE, ROUTE_TABLE_ASSOCIATION]
