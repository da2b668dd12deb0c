"""What EKS remembers of each cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from lab.aws.actions import ApiError, Call


def now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Issue:
    """A health issue, as clusters, node groups and add-ons show it."""

    code: str
    message: str
    resource_ids: list[str] = field(default_factory=list)

    def described(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "resourceIds": self.resource_ids}


@dataclass
class Update:
    """One asynchronous change of a cluster, node group or add-on."""

    type: str
    parameters: dict[str, str]
    id: str = field(default_factory=lambda: str(uuid4()))
    status: str = "InProgress"
    created: datetime = field(default_factory=now)
    errors: list[Issue] = field(default_factory=list)

    def described(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "status": self.status,
            "type": self.type,
            "params": [{"type": name, "value": value} for name, value in self.parameters.items()],
            "createdAt": self.created,
            "errors": [
                {"errorCode": one.code, "errorMessage": one.message, "resourceIds": one.resource_ids}
                for one in self.errors
            ],
        }

    def end(self, *errors: Issue) -> None:
        self.errors = list(errors)
        self.status = "Failed" if errors else "Successful"


@dataclass
class Nodegroup:
    name: str
    arn: str
    version: str
    release_version: str
    role_arn: str
    subnets: list[str]
    ami_type: str
    capacity_type: str
    instance_types: list[str]
    """As given to EKS; empty when the launch template names the type."""
    disk_size: int | None
    scaling: dict[str, int]
    update_config: dict[str, Any]
    repair_config: dict[str, Any]
    remote_access: dict[str, Any] | None
    launch_template: dict[str, str] | None
    """id, name and version."""
    labels: dict[str, str]
    taints: list[dict[str, str]]
    tags: dict[str, str]
    autoscaling_group: str
    status: str = "CREATING"
    issues: list[Issue] = field(default_factory=list)
    created: datetime = field(default_factory=now)
    modified: datetime = field(default_factory=now)
    instances: list[str] = field(default_factory=list)
    """Ids, oldest first."""
    updates: dict[str, Update] = field(default_factory=dict)


@dataclass
class Addon:
    name: str
    arn: str
    version: str
    tags: dict[str, str]
    service_account_role_arn: str | None
    configuration: str | None
    """As given: JSON or YAML."""
    namespace: str
    pod_identities: list[str] = field(default_factory=list)
    """ARNs of the associations that it owns."""
    status: str = "CREATING"
    issues: list[Issue] = field(default_factory=list)
    created: datetime = field(default_factory=now)
    modified: datetime = field(default_factory=now)
    updates: dict[str, Update] = field(default_factory=dict)


@dataclass
class AssociatedPolicy:
    arn: str
    scope: str
    """cluster or namespace."""
    namespaces: list[str]
    associated: datetime = field(default_factory=now)
    modified: datetime = field(default_factory=now)


@dataclass
class Entry:
    """An access entry."""

    principal_arn: str
    arn: str
    username: str
    groups: list[str]
    type: str
    tags: dict[str, str]
    policies: dict[str, AssociatedPolicy] = field(default_factory=dict)
    created: datetime = field(default_factory=now)
    modified: datetime = field(default_factory=now)


@dataclass
class PodIdentity:
    id: str
    arn: str
    namespace: str
    service_account: str
    role_arn: str
    tags: dict[str, str]
    owner_arn: str | None = None
    disable_session_tags: bool = False
    target_role_arn: str | None = None
    created: datetime = field(default_factory=now)
    modified: datetime = field(default_factory=now)


@dataclass
class Cluster:
    name: str
    arn: str
    region: str
    account: str
    version: str
    role_arn: str
    vpc: dict[str, Any]
    """resourcesVpcConfig as DescribeCluster shows it."""
    network: dict[str, Any]
    logging: dict[str, Any]
    encryption: list[dict[str, Any]]
    access: dict[str, Any]
    upgrade_policy: dict[str, Any]
    tags: dict[str, str]
    deletion_protection: bool
    oidc_id: str
    status: str = "CREATING"
    endpoint: str | None = None
    certificate_authority: str | None = None
    issues: list[Issue] = field(default_factory=list)
    created: datetime = field(default_factory=now)
    nodegroups: dict[str, Nodegroup] = field(default_factory=dict)
    addons: dict[str, Addon] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    pod_identities: dict[str, PodIdentity] = field(default_factory=dict)
    updates: dict[str, Update] = field(default_factory=dict)


@dataclass
class Clusters:
    """By name."""

    clusters: dict[str, Cluster] = field(default_factory=dict)


def all_clusters(call: Call) -> dict[str, Cluster]:
    return call.world.state(Clusters, call.region).clusters


def find_cluster(call: Call, name: str | None = None) -> Cluster:
    """The cluster that the call names. Raises ResourceNotFoundException."""
    name = name or call.get("clusterName") or call["name"]
    found = all_clusters(call).get(name)
    if found is None:
        raise ApiError("ResourceNotFoundException", f"No cluster found for name: {name}.", clusterName=name)
    return found


def active_cluster(call: Call) -> Cluster:
    """The same, for calls that need it ACTIVE (or being updated)."""
    cluster = find_cluster(call)
    if cluster.status not in ("ACTIVE", "UPDATING"):
        raise ApiError(
            "InvalidRequestException",
            f"Cluster '{cluster.name}' is not in ACTIVE status",
            clusterName=cluster.name,
        )
    return cluster


def find_nodegroup(call: Call, cluster: Cluster) -> Nodegroup:
    name = call["nodegroupName"]
    if name not in cluster.nodegroups:
        raise ApiError(
            "ResourceNotFoundException", f"No node group found for name: {name}.", nodegroupName=name
        )
    return cluster.nodegroups[name]


def find_addon(call: Call, cluster: Cluster) -> Addon:
    name = call["addonName"]
    if name not in cluster.addons:
        raise ApiError(
            "ResourceNotFoundException", f"No addon: {name} found in cluster: {cluster.name}", addonName=name
        )
    return cluster.addons[name]
