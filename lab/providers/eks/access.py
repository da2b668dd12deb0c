"""Access entries by eks.Cluster's `accessEntries`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws


def access_entries(
    name: str, parent: pulumi.Resource, cluster: aws.eks.Cluster, entries: Mapping[str, Any]
) -> list[aws.eks.AccessEntry]:
    """One entry for each key, named after it, with its policy associations below."""
    made = []
    for key, entry in entries.items():
        made_entry = aws.eks.AccessEntry(
            f"{name}-{key}",
            cluster_name=cluster.name,
            principal_arn=entry["principalArn"],
            type=entry.get("type"),
            kubernetes_groups=entry.get("kubernetesGroups"),
            user_name=entry.get("username"),
            tags=entry.get("tags"),
            opts=pulumi.ResourceOptions(parent=parent, depends_on=[cluster]),
        )
        for policy, association in (entry.get("accessPolicies") or {}).items():
            known = pulumi.Output.from_input(association)
            aws.eks.AccessPolicyAssociation(
                f"{name}-{key}-{policy}",
                cluster_name=cluster.name,
                principal_arn=entry["principalArn"],
                policy_arn=known.apply(lambda found: found["policyArn"]),
                access_scope=known.apply(lambda found: found["accessScope"]),
                opts=pulumi.ResourceOptions(parent=made_entry, depends_on=[made_entry]),
            )
        made.append(made_entry)
    return made
