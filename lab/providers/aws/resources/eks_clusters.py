"""EKS: clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.providers.aws.convert import from_api
from lab.providers.aws.operation import Operation, search
from lab.providers.aws.resources.eks_common import BUSY, ROLE_NOT_YET, TAGS, applied, status
from lab.providers.aws.table import Autoname, Call, Property, Resource, Step, out


def _cluster_update(*names: str) -> Step:
    """EKS takes one kind of change per UpdateClusterConfig."""

    def act(operation: Operation) -> None:
        properties = [operation.resource.by_name[name] for name in names]
        call = Call("UpdateClusterConfig", {"name": "{id}"}, more=_update_parameters(names))
        applied(operation, operation.run(call, properties), name=operation.id)

    return Step(names, act, on_create=False)


def _update_parameters(names: Iterable[str]) -> Any:
    def more(operation: Operation) -> Mapping[str, Any]:
        if "enabledClusterLogTypes" in names:
            return _logging(operation, complete=True)
        if "accessConfig" in names:
            # Only the mode can change; the creator's bootstrap permission is of the create call.
            return {
                "accessConfig": {"authenticationMode": operation.inputs["accessConfig"]["authenticationMode"]}
            }
        return {}

    return more


def _logging(operation: Operation, complete: bool = False) -> dict[str, Any]:
    """EKS turns log types on and off by group; an update names those to turn off, too."""
    on = sorted(operation.inputs.get("enabledClusterLogTypes") or [])
    off = sorted({"api", "audit", "authenticator", "controllerManager", "scheduler"} - set(on))
    groups = [{"types": on, "enabled": True}] if on else []
    if complete and off:
        groups.append({"types": off, "enabled": False})
    return {"logging": {"clusterLogging": groups}} if groups else {}


def _update_vpc(operation: Operation) -> None:
    """Subnets and security groups are one update, the endpoints' reach is another."""
    before, after = operation.state.get("vpcConfig") or {}, operation.inputs["vpcConfig"]
    for members in (
        ("endpointPublicAccess", "endpointPrivateAccess", "publicAccessCidrs"),
        ("subnetIds", "securityGroupIds"),
    ):
        wanted = {name: after[name] for name in members if after.get(name) is not None}
        changed = any(_unordered(before.get(name)) != _unordered(value) for name, value in wanted.items())
        if changed:
            answer = operation.call("UpdateClusterConfig", name=operation.id, resourcesVpcConfig=wanted)
            applied(operation, answer, name=operation.id)


def _unordered(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value


def _update_version(operation: Operation) -> None:
    answer = operation.run(
        Call(
            "UpdateClusterVersion", {"name": "{id}", "version": "{version}", "force": "{forceUpdateVersion}"}
        )
    )
    applied(operation, answer, name=operation.id)


def _encrypt(operation: Operation) -> None:
    prop = operation.resource.by_name["encryptionConfig"]
    answer = operation.run(Call("AssociateEncryptionConfig", {"clusterName": "{id}"}), [prop])
    applied(operation, answer, name=operation.id)


def _cluster_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    groups = search("logging.clusterLogging[?enabled].types[]", description) or []
    issuer = search("identity.oidc.issuer", description)
    access = from_api(description.get("accessConfig"))
    # Of the create call only: EKS may not tell it again.
    bootstrap = (operation.value("accessConfig") or {}).get("bootstrapClusterCreatorAdminPermissions")
    if access and bootstrap is not None:
        access["bootstrapClusterCreatorAdminPermissions"] = bootstrap
    return {
        "accessConfig": access,
        "enabledClusterLogTypes": sorted(groups),
        "clusterId": None,
        "identities": [{"oidcs": [{"issuer": issuer}]}] if issuer else [],
        "certificateAuthority": {"data": search("certificateAuthority.data", description)},
    }


CLUSTER = Resource(
    "aws:eks/cluster:Cluster",
    service="eks",
    id="{name}",
    inputs=[
        Property("name", replaces=True),
        Property("roleArn", replaces=True),
        Property("vpcConfig", api="resourcesVpcConfig"),
        Property("version", computed=True),
        Property("forceUpdateVersion", default=False, local=True),
        Property("accessConfig", computed=True),
        Property("bootstrapSelfManagedAddons", default=True, replaces=True, unread=True),
        Property("deletionProtection", default=False),
        Property("enabledClusterLogTypes", default=[]),
        Property("encryptionConfig", single=True),
        Property("kubernetesNetworkConfig", computed=True, replaces=True),
        Property("upgradePolicy", computed=True),
        Property("zonalShiftConfig", computed=True),
    ],
    outputs=[
        out("arn"),
        out("certificateAuthority"),
        out("clusterId"),
        out("createdAt"),
        out("endpoint"),
        out("identities"),
        out("platformVersion"),
        out("status"),
    ],
    create=Call("CreateCluster", more=_logging),
    read=Call("DescribeCluster", {"name": "{id}"}, result="cluster"),
    delete=Call("DeleteCluster", {"name": "{id}"}),
    steps=[
        _cluster_update("accessConfig"),
        Step(["vpcConfig"], _update_vpc, on_create=False),
        _cluster_update("enabledClusterLogTypes"),
        _cluster_update("deletionProtection"),
        _cluster_update("upgradePolicy"),
        _cluster_update("zonalShiftConfig"),
        Step(["encryptionConfig"], _encrypt, on_create=False),
        Step(["version"], _update_version, on_create=False),
        Step(["forceUpdateVersion"], lambda operation: None),
    ],
    extend=_cluster_properties,
    missing=["ResourceNotFoundException"],
    status=status(30),
    tags=TAGS,
    autoname=Autoname(longest=100),
    busy=BUSY,
    eventual=ROLE_NOT_YET,
)


RESOURCES = [CLUSTER]
