"""Pod identity associations: which role the pods of a service account get."""

from __future__ import annotations

import secrets
import string
from typing import Any

from lab.aws.actions import ApiError, Call, action
from lab.aws.eks.checks import check_role
from lab.aws.eks.state import Cluster, PodIdentity, active_cluster, find_cluster, now

SERVICE = "pods.eks.amazonaws.com"


def associate(
    call: Call,
    cluster: Cluster,
    namespace: str,
    service_account: str,
    role_arn: str,
    owner_arn: str | None = None,
) -> PodIdentity:
    """Make an association, the only one of its service account."""
    for one in cluster.pod_identities.values():
        if (one.namespace, one.service_account) == (namespace, service_account):
            raise ApiError(
                "ResourceInUseException",
                f"Association already exists: {one.id}",
                clusterName=cluster.name,
            )
    check_role(call, role_arn, SERVICE)
    identity = "a-" + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(17))
    association = PodIdentity(
        id=identity,
        arn=call.arn("eks", f"podidentityassociation/{cluster.name}/{identity}"),
        namespace=namespace,
        service_account=service_account,
        role_arn=role_arn,
        tags={},
        owner_arn=owner_arn,
    )
    cluster.pod_identities[identity] = association
    return association


def _find(call: Call) -> tuple[Cluster, PodIdentity]:
    cluster, identity = find_cluster(call), call["associationId"]
    if identity not in cluster.pod_identities:
        raise ApiError("ResourceNotFoundException", f"No association found for ID: {identity}")
    return cluster, cluster.pod_identities[identity]


def _described(cluster: Cluster, one: PodIdentity) -> dict[str, Any]:
    return {
        "clusterName": cluster.name,
        "namespace": one.namespace,
        "serviceAccount": one.service_account,
        "roleArn": one.role_arn,
        "associationArn": one.arn,
        "associationId": one.id,
        "tags": one.tags,
        "createdAt": one.created,
        "modifiedAt": one.modified,
        "ownerArn": one.owner_arn,
        "disableSessionTags": one.disable_session_tags,
        "targetRoleArn": one.target_role_arn,
    }


@action("eks", "CreatePodIdentityAssociation")
def create_pod_identity_association(call: Call) -> dict[str, Any]:
    cluster = active_cluster(call)
    one = associate(call, cluster, call["namespace"], call["serviceAccount"], call["roleArn"])
    one.tags = dict(call.get("tags", {}))
    one.disable_session_tags = call.get("disableSessionTags", False)
    one.target_role_arn = call.get("targetRoleArn")
    return {"association": _described(cluster, one)}


@action("eks", "DescribePodIdentityAssociation")
def describe_pod_identity_association(call: Call) -> dict[str, Any]:
    return {"association": _described(*_find(call))}


@action("eks", "ListPodIdentityAssociations")
def list_pod_identity_associations(call: Call) -> dict[str, Any]:
    cluster = find_cluster(call)
    namespace, account = call.get("namespace"), call.get("serviceAccount")
    return {
        "associations": [
            {
                "clusterName": cluster.name,
                "namespace": one.namespace,
                "serviceAccount": one.service_account,
                "associationArn": one.arn,
                "associationId": one.id,
                "ownerArn": one.owner_arn,
            }
            for one in cluster.pod_identities.values()
            if namespace in (None, one.namespace) and account in (None, one.service_account)
        ]
    }


@action("eks", "UpdatePodIdentityAssociation")
def update_pod_identity_association(call: Call) -> dict[str, Any]:
    cluster, one = _find(call)
    if call.get("roleArn"):
        check_role(call, call["roleArn"], SERVICE)
        one.role_arn = call["roleArn"]
    one.disable_session_tags = call.get("disableSessionTags", one.disable_session_tags)
    one.target_role_arn = call.get("targetRoleArn", one.target_role_arn)
    one.modified = now()
    return {"association": _described(cluster, one)}


@action("eks", "DeletePodIdentityAssociation")
def delete_pod_identity_association(call: Call) -> dict[str, Any]:
    cluster, one = _find(call)
    if one.owner_arn:
        raise ApiError("InvalidRequestException", f"The association is owned by {one.owner_arn}.")
    del cluster.pod_identities[one.id]
    return {"association": _described(cluster, one)}
