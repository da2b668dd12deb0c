"""The training namespace, and what each persona's group may do in it (their access entries: cluster/identity.py)."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from cluster.identity import CI, SERVICE_ACCOUNT, TRAINERS, VIEWERS
from workloads.kubernetes import Kubernetes

READ = ["get", "list", "watch"]
WRITE = [*READ, "create", "update", "patch", "delete"]


def rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"api_groups": [group], "resources": resources, "verbs": verbs}


_WATCH = [
    rule("kubeflow.org", ["pytorchjobs"], READ),
    rule("", ["configmaps", "events", "persistentvolumeclaims", "pods", "pods/log", "services"], READ),
]
RULES = {
    # Submit, follow, stop and debug jobs.
    TRAINERS: [
        rule("kubeflow.org", ["pytorchjobs"], WRITE),
        rule("", ["configmaps"], WRITE),
        rule("", ["pods"], [*READ, "delete"]),
        rule("", ["pods/exec", "pods/portforward"], ["create"]),
        rule("", ["events", "persistentvolumeclaims", "pods/log", "services"], READ),
    ],
    VIEWERS: _WATCH,
    # A pipeline submits a job and waits for it.
    CI: [rule("kubeflow.org", ["pytorchjobs"], WRITE), rule("", ["configmaps"], WRITE), *_WATCH],
}
NODES = [rule("", ["nodes"], READ)]
"""What everybody may see of the whole cluster: where pods land, and what is free."""


class TrainingNamespace(pulumi.ComponentResource):
    """The namespace, the trainer's service account, and the personas' Roles."""

    namespace: pulumi.Output[str]

    def __init__(self, name: str, namespace: str, target: Kubernetes, opts: pulumi.ResourceOptions) -> None:
        super().__init__("shardyard:workloads:TrainingNamespace", name, None, opts)
        place = kubernetes.core.v1.Namespace(
            f"{name}-{namespace}", metadata={"name": namespace}, opts=target.object(self)
        )
        inside = target.object(self, depends_on=[place])
        kubernetes.core.v1.ServiceAccount(
            f"{name}-{SERVICE_ACCOUNT}",
            metadata={"name": SERVICE_ACCOUNT, "namespace": namespace},
            automount_service_account_token=False,  # the trainer asks Kubernetes for nothing
            opts=inside,
        )
        for group, rules in RULES.items():
            label = group.partition(":")[2]
            kubernetes.rbac.v1.Role(
                f"{name}-{label}", metadata={"name": label, "namespace": namespace}, rules=rules, opts=inside
            )
            kubernetes.rbac.v1.RoleBinding(
                f"{name}-{label}",
                metadata={"name": label, "namespace": namespace},
                role_ref=_reference("Role", label),
                subjects=[_group(group)],
                opts=inside,
            )
        see_nodes = "shardyard-see-nodes"
        kubernetes.rbac.v1.ClusterRole(
            f"{name}-{see_nodes}", metadata={"name": see_nodes}, rules=NODES, opts=target.object(self)
        )
        kubernetes.rbac.v1.ClusterRoleBinding(
            f"{name}-{see_nodes}",
            metadata={"name": see_nodes},
            role_ref=_reference("ClusterRole", see_nodes),
            subjects=[_group(group) for group in RULES],
            opts=target.object(self),
        )
        self.namespace = place.metadata.apply(lambda metadata: str(metadata.name))
        self.register_outputs({"namespace": self.namespace})


def _reference(kind: str, name: str) -> dict[str, str]:
    return {"api_group": "rbac.authorization.k8s.io", "kind": kind, "name": name}


def _group(name: str) -> dict[str, str]:
    return {"api_group": "rbac.authorization.k8s.io", "kind": "Group", "name": name}
