"""Who may do what: an IAM role and an access entry for each persona, and the trainer's pod identity.

Kubernetes' half of it (Roles and bindings for the groups named here) is in workloads/access.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from cluster import policies
from cluster.control_plane import ControlPlane
from cluster.names import prefix
from cluster.registry import Registry
from cluster.settings.sections import Access
from cluster.storage import Buckets

TRAINERS, VIEWERS, CI = "shardyard:trainers", "shardyard:viewers", "shardyard:ci"
"""Kubernetes groups of the personas."""
SERVICE_ACCOUNT = "trainer"
_POLICY = "arn:aws:eks::aws:cluster-access-policy/{}"


@dataclass(frozen=True)
class Persona:
    """A kind of user: its Kubernetes groups, and an EKS access policy for all namespaces."""

    name: str
    groups: tuple[str, ...] = ()
    cluster_policy: str | None = None


PERSONAS = (
    Persona("admin", cluster_policy="AmazonEKSClusterAdminPolicy"),
    Persona("trainer", groups=(TRAINERS,)),
    Persona("viewer", groups=(VIEWERS,), cluster_policy="AmazonEKSViewPolicy"),
    Persona("ci", groups=(CI,)),
)


class Roles(pulumi.ComponentResource):
    """IAM roles of the personas and of the trainer's pods. They outlive the cluster on destroy."""

    personas: dict[str, aws.iam.Role]
    trainer_pods: aws.iam.Role

    def __init__(
        self,
        name: str,
        access: Access,
        *,
        region: str,
        buckets: Buckets,
        registry: Registry,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("shardyard:cluster:Roles", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        account = aws.get_caller_identity_output(opts=pulumi.InvokeOutputOptions(parent=self)).account_id
        cluster = account.apply(lambda number: f"arn:aws:eks:{region}:{number}:cluster/{name}")
        principals = {
            "admin": access.admins,
            "trainer": access.trainers,
            "viewer": access.viewers,
            "ci": access.ci,
        }
        known = {
            "cluster": cluster,
            "data": buckets.data.arn,
            "checkpoints": buckets.checkpoints.arn,
            "repository": registry.repository.arn,
        }
        statements = {
            "admin": _see_cluster,
            "trainer": _train,
            "viewer": _see_cluster,
            "ci": _publish_images,
        }
        self.personas = {}
        for persona in PERSONAS:
            label = f"{name}-{persona.name}"
            role = aws.iam.Role(
                label,
                name_prefix=prefix(label, 38),
                description=f"{persona.name} of {name}",
                assume_role_policy=_trust(principals[persona.name], account),
                max_session_duration=12 * 3600,
                opts=child,
            )
            aws.iam.RolePolicy(
                label, role=role.id, policy=policies.output(statements[persona.name], **known), opts=child
            )
            self.personas[persona.name] = role

        label = f"{name}-trainer-pods"
        self.trainer_pods = aws.iam.Role(
            label,
            name_prefix=prefix(label, 38),
            description=f"Training pods of {name}, through EKS pod identity",
            assume_role_policy=policies.trust_service(
                "pods.eks.amazonaws.com", actions=("sts:AssumeRole", "sts:TagSession")
            ),
            opts=child,
        )
        aws.iam.RolePolicy(
            label,
            role=self.trainer_pods.id,
            policy=policies.output(_read_data_write_checkpoints, **known),
            opts=child,
        )
        self.register_outputs({persona: role.arn for persona, role in self.personas.items()})


class ClusterAccess(pulumi.ComponentResource):
    """Access entries of the personas, and the pod identity of the trainer."""

    def __init__(
        self,
        name: str,
        roles: Roles,
        *,
        control_plane: ControlPlane,
        namespace: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("shardyard:cluster:ClusterAccess", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        cluster_name = control_plane.cluster_name
        for persona in PERSONAS:
            label = f"{name}-{persona.name}"
            arn = roles.personas[persona.name].arn
            entry = aws.eks.AccessEntry(
                label,
                cluster_name=cluster_name,
                principal_arn=arn,
                kubernetes_groups=list(persona.groups) or None,
                opts=child,
            )
            if persona.cluster_policy:
                aws.eks.AccessPolicyAssociation(
                    label,
                    cluster_name=cluster_name,
                    principal_arn=arn,
                    policy_arn=_POLICY.format(persona.cluster_policy),
                    access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
                    opts=pulumi.ResourceOptions(parent=self, depends_on=[entry]),
                )
        aws.eks.PodIdentityAssociation(
            f"{name}-trainer",
            cluster_name=cluster_name,
            namespace=namespace,
            service_account=SERVICE_ACCOUNT,
            role_arn=roles.trainer_pods.arn,
            opts=child,
        )
        self.register_outputs({})


def _trust(principals: Sequence[str], account: pulumi.Output[str]) -> pulumi.Output[str]:
    """The named principals, or whoever the account's administrators allow if none is named."""
    if principals:
        return pulumi.Output.from_input(policies.trust_principals(principals))
    return account.apply(lambda number: policies.trust_principals([f"arn:aws:iam::{number}:root"]))


def _see_cluster(*, cluster: str, **_: str) -> list[policies.Statement]:
    """What `aws eks update-kubeconfig` needs."""
    return [policies.allow(["eks:DescribeCluster"], [cluster])]


def _train(*, cluster: str, data: str, checkpoints: str, **_: str) -> list[policies.Statement]:
    """People who train: put data in, take checkpoints out."""
    return [
        *_see_cluster(cluster=cluster),
        policies.allow(["s3:ListBucket", "s3:GetBucketLocation"], [data, checkpoints]),
        policies.allow(
            ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"], [f"{data}/*"]
        ),
        policies.allow(["s3:GetObject"], [f"{checkpoints}/*"]),
    ]


def _publish_images(*, cluster: str, repository: str, **_: str) -> list[policies.Statement]:
    """A pipeline: push the trainer's image, submit jobs."""
    push = [
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:CompleteLayerUpload",
        "ecr:DescribeImages",
        "ecr:GetDownloadUrlForLayer",
        "ecr:InitiateLayerUpload",
        "ecr:PutImage",
        "ecr:UploadLayerPart",
    ]
    return [
        *_see_cluster(cluster=cluster),
        policies.allow(push, [repository]),
        # IAM supports no resource-level permission for this action.
        policies.allow(["ecr:GetAuthorizationToken"], ["*"]),
    ]


def _read_data_write_checkpoints(*, data: str, checkpoints: str, **_: str) -> list[policies.Statement]:
    """Training pods. They list multipart uploads in order to abort those that an earlier crash left."""
    return [
        policies.allow(["s3:ListBucket", "s3:GetBucketLocation"], [data, checkpoints]),
        policies.allow(["s3:ListBucketMultipartUploads"], [checkpoints]),
        policies.allow(["s3:GetObject"], [f"{data}/*"]),
        policies.allow(
            ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
            [f"{checkpoints}/*"],
        ),
    ]
