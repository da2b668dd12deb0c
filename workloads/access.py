"""The training namespace, and what each persona's group may do in it (their access entries: cluster/identity.py).

Whoever may create a PyTorchJob chooses its pod template: workloads/pod_policy.py says what that may not ask for.
"""

from __future__ import annotations

import pulumi

from cluster.identity import CI, SERVICE_ACCOUNT, TRAINERS, VIEWERS
from workloads.kubernetes import Kubernetes
from workloads.manifests import Manifest
from workloads.objects import Object

READ = ["get", "list", "watch"]
WRITE = [*READ, "create", "update", "patch", "delete"]


def rule(group: str, resources: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


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
SEE_NODES = "shardyard-see-nodes"


class TrainingNamespace(pulumi.ComponentResource):
    """The namespace, the trainer's service account, and the personas' Roles."""

    def __init__(self, name: str, namespace: str, target: Kubernetes, opts: pulumi.ResourceOptions) -> None:
        super().__init__("shardyard:workloads:TrainingNamespace", name, None, opts)
        place, *others = manifests(namespace)
        first = Object(f"{name}-{namespace}", place, target.object(self))
        for document in others:
            label = f"{name}-{document['metadata']['name']}"
            Object(label, document, target.object(self, depends_on=[first]))
        self.register_outputs({"namespace": namespace})


def manifests(namespace: str) -> list[Manifest]:
    """The namespace, then what is in it and what is about it."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": SERVICE_ACCOUNT, "namespace": namespace},
            "automountServiceAccountToken": False,  # the trainer asks Kubernetes for nothing
        },
        *(document for group, rules in RULES.items() for document in _role(group, rules, namespace)),
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": SEE_NODES},
            "rules": NODES,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": SEE_NODES},
            "roleRef": _reference("ClusterRole", SEE_NODES),
            "subjects": [_group(group) for group in RULES],
        },
    ]


def _role(group: str, rules: list[Manifest], namespace: str) -> list[Manifest]:
    """A Role of the group's rules, and its binding to the group."""
    label = group.partition(":")[2]
    metadata = {"name": label, "namespace": namespace}
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": rules,
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": _reference("Role", label),
            "subjects": [_group(group)],
        },
    ]


def _reference(kind: str, name: str) -> Manifest:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}


def _group(name: str) -> Manifest:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name}
