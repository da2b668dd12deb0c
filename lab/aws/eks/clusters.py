"""Clusters: create, describe, list, update, delete."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from moto.logs.models import logs_backends

from lab.aws.actions import ApiError, Call, action
from lab.aws.eks import control_plane, versions
from lab.aws.eks.access import admit_creator
from lab.aws.eks.checks import check_role
from lab.aws.eks.network import resources_vpc_config
from lab.aws.eks.state import Cluster, Clusters, Update, active_cluster, all_clusters, find_cluster

LOG_TYPES = ["api", "audit", "authenticator", "controllerManager", "scheduler"]


def described(cluster: Cluster) -> dict[str, Any]:
    return {
        "name": cluster.name,
        "arn": cluster.arn,
        "createdAt": cluster.created,
        "version": cluster.version,
        "endpoint": cluster.endpoint,
        "roleArn": cluster.role_arn,
        "resourcesVpcConfig": cluster.vpc,
        "kubernetesNetworkConfig": cluster.network,
        "logging": cluster.logging,
        "identity": {
            "oidc": {"issuer": f"https://oidc.eks.{cluster.region}.amazonaws.com/id/{cluster.oidc_id}"}
        },
        "status": cluster.status,
        "certificateAuthority": {"data": cluster.certificate_authority}
        if cluster.certificate_authority
        else {},
        "platformVersion": versions.PLATFORM_VERSIONS[cluster.version],
        "tags": cluster.tags,
        "encryptionConfig": cluster.encryption,
        "health": {"issues": [issue.described() for issue in cluster.issues]},
        "accessConfig": cluster.access,
        "upgradePolicy": cluster.upgrade_policy,
        "deletionProtection": cluster.deletion_protection,
    }


def _logging(given: dict[str, Any] | None, present: dict[str, Any] | None = None) -> dict[str, Any]:
    """The complete list of log types, enabled or not, as DescribeCluster shows it."""
    setups = [*(present or {}).get("clusterLogging", []), *(given or {}).get("clusterLogging", [])]
    enabled: set[str] = set()
    for setup in setups:
        types = set(setup.get("types", []))
        enabled = enabled | types if setup.get("enabled") else enabled - types
    return {
        "clusterLogging": [
            {"types": kinds, "enabled": on}
            for on in (True, False)
            if (kinds := [kind for kind in LOG_TYPES if (kind in enabled) == on])
        ]
    }


def _ensure_log_group(cluster: Cluster) -> None:
    """EKS makes the group that it logs to, unless it is there. Deleting the cluster doesn't remove it."""
    setups = cluster.logging["clusterLogging"]
    name = f"/aws/eks/{cluster.name}/cluster"
    logs = logs_backends[cluster.account][cluster.region]
    if any(setup["enabled"] for setup in setups) and name not in logs.groups:
        logs.create_log_group(name, {})


def _access(call: Call) -> dict[str, Any]:
    given = call.get("accessConfig", {})
    return {
        "authenticationMode": given.get("authenticationMode", "CONFIG_MAP"),
        "bootstrapClusterCreatorAdminPermissions": given.get("bootstrapClusterCreatorAdminPermissions", True),
    }


@action("eks", "CreateCluster")
def create_cluster(call: Call) -> dict[str, Any]:
    name = call["name"]
    if any(name in state.clusters for state in call.world.states(Clusters).values()):
        # Names are unique by region on AWS; here in all regions, as they name the machine's programs.
        raise ApiError(
            "ResourceInUseException", f"Cluster already exists with name: {name}", clusterName=name
        )
    version = versions.check(call.get("version", versions.DEFAULT))
    check_role(call, call["roleArn"], "eks.amazonaws.com")
    network = call.get("kubernetesNetworkConfig", {})
    cluster = Cluster(
        name=name,
        arn=call.arn("eks", f"cluster/{name}"),
        region=call.region,
        account=call.account,
        version=version,
        role_arn=call["roleArn"],
        vpc=resources_vpc_config(call, name),
        network={
            "serviceIpv4Cidr": network.get("serviceIpv4Cidr", str(call.world.lab.service_network)),
            "ipFamily": network.get("ipFamily", "ipv4"),
            "elasticLoadBalancing": {"enabled": False},
        },
        logging=_logging(call.get("logging")),
        encryption=list(call.get("encryptionConfig", [])),
        access=_access(call),
        upgrade_policy=call.get("upgradePolicy", {"supportType": "EXTENDED"}),
        tags=dict(call.get("tags", {})),
        deletion_protection=call.get("deletionProtection", False),
        oidc_id=uuid4().hex.upper(),
    )
    admit_creator(call, cluster)
    _ensure_log_group(cluster)
    all_clusters(call)[name] = cluster
    control_plane.start(call.world, cluster)
    return {"cluster": described(cluster)}


@action("eks", "DescribeCluster")
def describe_cluster(call: Call) -> dict[str, Any]:
    return {"cluster": described(find_cluster(call))}


@action("eks", "ListClusters")
def list_clusters(call: Call) -> dict[str, Any]:
    return {"clusters": sorted(all_clusters(call))}


@action("eks", "DeleteCluster")
def delete_cluster(call: Call) -> dict[str, Any]:
    cluster = find_cluster(call)
    if cluster.deletion_protection:
        raise ApiError(
            "InvalidRequestException",
            f"Cluster {cluster.name} has deletion protection enabled.",
            clusterName=cluster.name,
        )
    if cluster.nodegroups:
        raise ApiError("ResourceInUseException", "Cluster has nodegroups attached", clusterName=cluster.name)
    if cluster.status not in ("ACTIVE", "FAILED"):
        raise ApiError(
            "ResourceInUseException", f"Cluster status is {cluster.status}", clusterName=cluster.name
        )
    control_plane.stop(call.world, cluster, lambda: all_clusters(call).pop(cluster.name, None))
    return {"cluster": described(cluster)}


@action("eks", "UpdateClusterConfig")
def update_cluster_config(call: Call) -> dict[str, Any]:
    """One kind of change a call, as EKS wants it; the change itself takes effect at once."""
    cluster = active_cluster(call)
    kinds = {
        "resourcesVpcConfig": "EndpointAccessUpdate",
        "logging": "LoggingUpdate",
        "accessConfig": "AccessConfigUpdate",
        "upgradePolicy": "UpgradePolicyUpdate",
        "deletionProtection": "DeletionProtectionUpdate",
    }
    given = [name for name in kinds if call.get(name) is not None]
    if len(given) != 1:
        raise ApiError(
            "InvalidParameterException",
            "Exactly one type of update can be made in a call.",
            clusterName=cluster.name,
        )
    [name], value = given, call[given[0]]
    if name == "resourcesVpcConfig":
        cluster.vpc.update(resources_vpc_config(call, cluster.name, cluster.vpc))
    elif name == "logging":
        cluster.logging = _logging(value, cluster.logging)
        _ensure_log_group(cluster)
    elif name == "accessConfig":
        _change_authentication_mode(cluster, value["authenticationMode"])
    elif name == "upgradePolicy":
        cluster.upgrade_policy = value
    else:
        cluster.deletion_protection = value
    return {"update": _recorded(cluster, kinds[name], {name: str(value)}).described()}


def _change_authentication_mode(cluster: Cluster, mode: str) -> None:
    order = ["CONFIG_MAP", "API_AND_CONFIG_MAP", "API"]
    if order.index(mode) < order.index(cluster.access["authenticationMode"]):
        raise ApiError(
            "InvalidParameterException",
            f"Unsupported authentication mode update from {cluster.access['authenticationMode']} to {mode}",
            clusterName=cluster.name,
        )
    cluster.access["authenticationMode"] = mode


@action("eks", "UpdateClusterVersion")
def update_cluster_version(call: Call) -> dict[str, Any]:
    """One minor version at a time and never back. The lab's control plane goes on running its own version."""
    cluster, version = active_cluster(call), versions.check(call["version"])
    if versions.minor(version) != versions.minor(cluster.version) + 1:
        raise ApiError(
            "InvalidParameterException",
            f"Unsupported Kubernetes minor version update from {cluster.version} to {version}",
            clusterName=cluster.name,
        )
    cluster.version = version
    return {"update": _recorded(cluster, "VersionUpdate", {"Version": version}).described()}


@action("eks", "AssociateEncryptionConfig")
def associate_encryption_config(call: Call) -> dict[str, Any]:
    cluster = active_cluster(call)
    if cluster.encryption:
        raise ApiError(
            "InvalidRequestException",
            "The cluster already has an encryption config.",
            clusterName=cluster.name,
        )
    cluster.encryption = list(call["encryptionConfig"])
    return {"update": _recorded(cluster, "AssociateEncryptionConfig", {}).described()}


def _recorded(cluster: Cluster, kind: str, parameters: dict[str, str]) -> Update:
    update = Update(kind, parameters)
    update.end()
    cluster.updates[update.id] = update
    return update
