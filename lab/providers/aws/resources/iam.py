"""IAM: roles, policies and what joins them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from botocore.exceptions import ClientError

from lab.providers.aws.operation import Operation, search
from lab.providers.aws.table import Autoname, Call, Property, Resource, Step, Tags, out

_MISSING = ["NoSuchEntity"]
_BUSY = ["DeleteConflict", "ConcurrentModification"]


def _tags(kind: str, target: Mapping[str, Any]) -> Tags:
    return Tags(add=f"Tag{kind}", remove=f"Untag{kind}", target=target)


def _document(value: Any) -> str | None:
    """A policy as text: boto3 decodes the URL encoding of some answers into objects, not of all."""
    if value is None:
        return None
    return unquote(value) if isinstance(value, str) else json.dumps(value)


# Roles


def _role_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    attached = operation.call("ListAttachedRolePolicies", RoleName=operation.id)["AttachedPolicies"]
    return {
        "assumeRolePolicy": _document(description.get("AssumeRolePolicyDocument")),
        "managedPolicyArns": sorted(policy["PolicyArn"] for policy in attached),
        "uniqueId": description.get("RoleId"),
    }


def _attach_managed(operation: Operation) -> None:
    before = set(operation.state.get("managedPolicyArns") or [])
    after = set(operation.inputs.get("managedPolicyArns") or [])
    for arn in sorted(before - after):
        operation.call("DetachRolePolicy", RoleName=operation.id, PolicyArn=arn)
    for arn in sorted(after - before):
        operation.call("AttachRolePolicy", RoleName=operation.id, PolicyArn=arn)


def _set_boundary(operation: Operation) -> None:
    boundary = operation.inputs.get("permissionsBoundary")
    if boundary:
        operation.call("PutRolePermissionsBoundary", RoleName=operation.id, PermissionsBoundary=boundary)
    else:
        operation.call("DeleteRolePermissionsBoundary", RoleName=operation.id)


def _delete_role(operation: Operation) -> None:
    """As terraform: instance profiles let go of it, and with forceDetachPolicies or policies that the
    role itself lists, those go first."""
    name = operation.id
    for profile in operation.call("ListInstanceProfilesForRole", RoleName=name)["InstanceProfiles"]:
        operation.call(
            "RemoveRoleFromInstanceProfile",
            InstanceProfileName=profile["InstanceProfileName"],
            RoleName=name,
        )
    if operation.state.get("forceDetachPolicies") or operation.state.get("managedPolicyArns"):
        for policy in operation.call("ListAttachedRolePolicies", RoleName=name)["AttachedPolicies"]:
            operation.call("DetachRolePolicy", RoleName=name, PolicyArn=policy["PolicyArn"])
    if operation.state.get("forceDetachPolicies"):
        for inline in operation.call("ListRolePolicies", RoleName=name)["PolicyNames"]:
            operation.call("DeleteRolePolicy", RoleName=name, PolicyName=inline)
    operation.call("DeleteRole", RoleName=name)


ROLE = Resource(
    "aws:iam/role:Role",
    service="iam",
    id="{name}",
    inputs=[
        Property("name", api="RoleName", replaces=True),
        Property("namePrefix", replaces=True, local=True),
        Property("assumeRolePolicy", api="AssumeRolePolicyDocument", json=True),
        Property("path", replaces=True, default="/"),
        Property("description", default=""),
        Property("maxSessionDuration", default=3600),
        Property("permissionsBoundary", read="PermissionsBoundary.PermissionsBoundaryArn"),
        Property("managedPolicyArns", computed=True),
        Property("forceDetachPolicies", default=False, local=True),
    ],
    outputs=[out("arn"), out("uniqueId", "RoleId"), out("createDate")],
    create=Call("CreateRole"),
    read=Call("GetRole", {"RoleName": "{id}"}, result="Role"),
    delete=_delete_role,
    steps=[
        Step(
            ["assumeRolePolicy"],
            Call("UpdateAssumeRolePolicy", {"RoleName": "{id}", "PolicyDocument": "{assumeRolePolicy}"}),
            on_create=False,
        ),
        Step(
            ["description", "maxSessionDuration"],
            Call("UpdateRole", {"RoleName": "{id}"}),
            on_create=False,
        ),
        Step(["permissionsBoundary"], _set_boundary, on_create=False),
        Step(["managedPolicyArns"], _attach_managed),
        Step(["forceDetachPolicies"], lambda operation: None),
    ],
    extend=_role_properties,
    missing=_MISSING,
    tags=_tags("Role", {"RoleName": "{id}"}),
    autoname=Autoname(prefix="namePrefix", longest=64),
    busy=_BUSY,
    eventual=["Invalid principal in policy"],
    regional=False,
)


def _attach(operation: Operation) -> str:
    role, policy = operation.inputs["role"], operation.inputs["policyArn"]
    operation.created = operation.call("AttachRolePolicy", RoleName=role, PolicyArn=policy)
    return f"{role}-{policy.rpartition('/')[2]}"


def _read_attachment(operation: Operation) -> Mapping[str, Any] | None:
    role, policy = operation.value("role"), operation.value("policyArn")
    if not role:  # an import gives "role/arn:aws:iam::aws:policy/…"
        role, _, policy = operation.id.partition("/")
    policies = operation.call("ListAttachedRolePolicies", RoleName=role)["AttachedPolicies"]
    return (
        {"role": role, "policyArn": policy} if any(each["PolicyArn"] == policy for each in policies) else None
    )


ROLE_POLICY_ATTACHMENT = Resource(
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    service="iam",
    id="",
    inputs=[
        Property("role", api="RoleName", read="role", replaces=True),
        Property("policyArn", replaces=True),
    ],
    create=_attach,
    checked_by="AttachRolePolicy",
    read=_read_attachment,
    delete=Call("DetachRolePolicy", {"RoleName": "{role}", "PolicyArn": "{policyArn}"}),
    missing=_MISSING,
    eventual=["NoSuchEntity"],
    regional=False,
)

_INLINE = {"RoleName": "{role}", "PolicyName": "{name}"}

ROLE_POLICY = Resource(
    "aws:iam/rolePolicy:RolePolicy",
    service="iam",
    id="{role}:{name}",
    inputs=[
        Property("name", api="PolicyName", replaces=True),
        Property("namePrefix", replaces=True, local=True),
        Property("role", api="RoleName", replaces=True),
        Property("policy", api="PolicyDocument", json=True),
    ],
    create=Call("PutRolePolicy"),
    read=Call("GetRolePolicy", _INLINE),
    delete=Call("DeleteRolePolicy", _INLINE),
    steps=[Step(["policy"], Call("PutRolePolicy", _INLINE), on_create=False)],
    extend=lambda operation, description: {"policy": _document(description.get("PolicyDocument"))},
    missing=_MISSING,
    autoname=Autoname(prefix="namePrefix", longest=128),
    regional=False,
)


# Managed policies


def _current_document(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    version = operation.call(
        "GetPolicyVersion", PolicyArn=operation.id, VersionId=description["DefaultVersionId"]
    )
    return {"policy": _document(search("PolicyVersion.Document", version))}


def _new_version(operation: Operation) -> None:
    """IAM keeps five versions of a policy: the oldest makes room."""
    versions = operation.call("ListPolicyVersions", PolicyArn=operation.id)["Versions"]
    spare = [version["VersionId"] for version in versions if not version["IsDefaultVersion"]]
    if len(versions) >= 5:
        oldest = min(spare, key=lambda name: int(name[1:]))
        operation.call("DeletePolicyVersion", PolicyArn=operation.id, VersionId=oldest)
    operation.call(
        "CreatePolicyVersion",
        PolicyArn=operation.id,
        PolicyDocument=operation.inputs["policy"],
        SetAsDefault=True,
    )


def _delete_policy(operation: Operation) -> None:
    for version in operation.call("ListPolicyVersions", PolicyArn=operation.id)["Versions"]:
        if not version["IsDefaultVersion"]:
            operation.call("DeletePolicyVersion", PolicyArn=operation.id, VersionId=version["VersionId"])
    operation.call("DeletePolicy", PolicyArn=operation.id)


POLICY = Resource(
    "aws:iam/policy:Policy",
    service="iam",
    id="Policy.Arn",
    inputs=[
        Property("name", api="PolicyName", replaces=True),
        Property("namePrefix", replaces=True, local=True),
        Property("path", replaces=True, default="/"),
        Property("description", replaces=True, default=""),
        Property("policy", api="PolicyDocument", json=True),
    ],
    outputs=[out("arn"), out("policyId"), out("attachmentCount")],
    create=Call("CreatePolicy"),
    read=Call("GetPolicy", {"PolicyArn": "{id}"}, result="Policy"),
    delete=_delete_policy,
    steps=[Step(["policy"], _new_version, on_create=False)],
    extend=_current_document,
    missing=_MISSING,
    tags=_tags("Policy", {"PolicyArn": "{id}"}),
    autoname=Autoname(prefix="namePrefix", longest=128),
    busy=_BUSY,
    regional=False,
)


# Instance profiles


def _set_role(operation: Operation) -> None:
    """A profile holds one role at most."""
    before, after = operation.state.get("role"), operation.inputs.get("role")
    if before and before != after:
        operation.call("RemoveRoleFromInstanceProfile", InstanceProfileName=operation.id, RoleName=before)
    if after and before != after:
        operation.call("AddRoleToInstanceProfile", InstanceProfileName=operation.id, RoleName=after)


def _delete_profile(operation: Operation) -> None:
    role = operation.state.get("role")
    if role:
        try:
            operation.call("RemoveRoleFromInstanceProfile", InstanceProfileName=operation.id, RoleName=role)
        except ClientError as error:
            if error.response["Error"]["Code"] not in _MISSING:
                raise
    operation.call("DeleteInstanceProfile", InstanceProfileName=operation.id)


INSTANCE_PROFILE = Resource(
    "aws:iam/instanceProfile:InstanceProfile",
    service="iam",
    id="{name}",
    inputs=[
        Property("name", api="InstanceProfileName", replaces=True),
        Property("namePrefix", replaces=True, local=True),
        Property("path", replaces=True, default="/"),
        Property("role", read="Roles[0].RoleName"),
    ],
    outputs=[out("arn"), out("createDate"), out("uniqueId", "InstanceProfileId")],
    create=Call("CreateInstanceProfile"),
    read=Call("GetInstanceProfile", {"InstanceProfileName": "{id}"}, result="InstanceProfile"),
    delete=_delete_profile,
    steps=[Step(["role"], _set_role)],
    missing=_MISSING,
    tags=_tags("InstanceProfile", {"InstanceProfileName": "{id}"}),
    autoname=Autoname(prefix="namePrefix", longest=128),
    busy=_BUSY,
    regional=False,
)

RESOURCES = [ROLE, ROLE_POLICY_ATTACHMENT, ROLE_POLICY, POLICY, INSTANCE_PROFILE]
