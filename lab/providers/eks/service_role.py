"""pulumi-eks's ServiceRole: a role for one AWS service, with managed policies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_aws as aws


class ServiceRole(pulumi.ComponentResource):
    role: aws.iam.Role
    ready_arn: pulumi.Output[str]
    """The role's ARN, once all policies are attached."""

    def __init__(
        self,
        name: str,
        service: str,
        policies: Sequence[str],
        *,
        description: str | None = None,
        tags: Any = None,
        actions: Sequence[str] = ("sts:AssumeRole",),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("eks:index:ServiceRole", name, None, opts)
        trust = {
            "Version": "2012-10-17",
            "Statement": [{"Action": list(actions), "Effect": "Allow", "Principal": {"Service": [service]}}],
        }
        child = pulumi.ResourceOptions(parent=self)
        self.role = aws.iam.Role(
            f"{name}-role",
            description=description,
            assume_role_policy=json.dumps(trust),
            tags=tags,
            opts=child,
        )
        attachments = [
            aws.iam.RolePolicyAttachment(
                f"{name}-{_digest(f'arn:aws:iam::aws:policy/{policy}')}",
                policy_arn=f"arn:aws:iam::aws:policy/{policy}",
                role=self.role.name,
                opts=child,
            )
            for policy in policies
        ]
        self.ready_arn = pulumi.Output.all(self.role.arn, *(each.id for each in attachments)).apply(
            lambda values: str(values[0])
        )
        self.register_outputs({"directRole": self.role})


def _digest(text: str) -> str:
    """pulumi-eks names attachments by the first eight hex digits of the policy's SHA-1."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()[:8]
