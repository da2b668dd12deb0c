"""EKS: access entries, their policies, and pod identities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from lab.providers.aws.operation import Operation
from lab.providers.aws.resources.eks_common import BUSY, ROLE_NOT_YET, TAGS
from lab.providers.aws.table import Call, Property, Resource, Step, inputs, out

_ENTRY = {"clusterName": "{clusterName}", "principalArn": "{principalArn}"}

ACCESS_ENTRY = Resource(
    "aws:eks/accessEntry:AccessEntry",
    service="eks",
    id="{clusterName}:{principalArn}",
    inputs=[
        *inputs("clusterName", "principalArn", replaces=True),
        Property("type", replaces=True, default="STANDARD"),
        Property("kubernetesGroups", computed=True),
        Property("userName", api="username", computed=True),
    ],
    outputs=[out("accessEntryArn"), out("createdAt"), out("modifiedAt", volatile=True)],
    create=Call("CreateAccessEntry"),
    read=Call("DescribeAccessEntry", _ENTRY, result="accessEntry"),
    delete=Call("DeleteAccessEntry", _ENTRY),
    steps=[Step(["kubernetesGroups", "userName"], Call("UpdateAccessEntry", _ENTRY), on_create=False)],
    missing=["ResourceNotFoundException"],
    tags=replace(TAGS, target={"resourceArn": "{accessEntryArn}"}),
    busy=BUSY,
    eventual=["The specified principalArn is invalid"],
)


def _read_association(operation: Operation) -> Mapping[str, Any] | None:
    try:
        answer = operation.run(Call("ListAssociatedAccessPolicies", _ENTRY))
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return None
        raise
    policy = operation.value("policyArn")
    found = next((each for each in answer["associatedAccessPolicies"] if each["policyArn"] == policy), None)
    return {**found, **operation.fill(_ENTRY)} if found else None


ACCESS_POLICY_ASSOCIATION = Resource(
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
    service="eks",
    id="{clusterName}#{principalArn}#{policyArn}",
    inputs=[
        *inputs("clusterName", "principalArn", "policyArn", replaces=True),
        Property("accessScope", replaces=True),
    ],
    outputs=[out("associatedAt"), out("modifiedAt")],
    create=Call("AssociateAccessPolicy"),
    read=_read_association,
    delete=Call("DisassociateAccessPolicy", {**_ENTRY, "policyArn": "{policyArn}"}),
    missing=["ResourceNotFoundException"],
    busy=BUSY,
    # The access entry may not be visible yet.
    eventual=["The specified principalArn could not be found", "No AccessEntry found"],
    delete_before_replace=True,
)


def _read_identity(operation: Operation) -> Mapping[str, Any] | None:
    cluster = operation.value("clusterName")
    association = operation.id.rpartition(",")[2]
    if "," in operation.id:  # an import gives "cluster,association"
        cluster, operation.id = operation.id.partition(",")[0], association
    answer = operation.call("DescribePodIdentityAssociation", clusterName=cluster, associationId=association)
    found: Mapping[str, Any] = answer["association"]
    return found


_IDENTITY = {"clusterName": "{clusterName}", "associationId": "{id}"}

POD_IDENTITY_ASSOCIATION = Resource(
    "aws:eks/podIdentityAssociation:PodIdentityAssociation",
    service="eks",
    id="association.associationId",
    inputs=[
        *inputs("clusterName", "namespace", "serviceAccount", replaces=True),
        *inputs("roleArn", "targetRoleArn"),
        Property("disableSessionTags", default=False),
    ],
    outputs=[out("associationArn"), out("associationId"), out("externalId")],
    create=Call("CreatePodIdentityAssociation"),
    read=_read_identity,
    delete=Call("DeletePodIdentityAssociation", _IDENTITY),
    steps=[
        Step(
            ["roleArn", "targetRoleArn", "disableSessionTags"],
            Call("UpdatePodIdentityAssociation", _IDENTITY),
            on_create=False,
        )
    ],
    missing=["ResourceNotFoundException", "NotFoundException"],
    tags=replace(TAGS, target={"resourceArn": "{associationArn}"}),
    busy=BUSY,
    eventual=ROLE_NOT_YET,
)

RESOURCES = [ACCESS_ENTRY, ACCESS_POLICY_ASSOCIATION, POD_IDENTITY_ASSOCIATION]
