"""EKS access policies as RBAC role bindings."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.nodes.api import AccessEntry, access_group
from lab.nodes.client.api import ApiClient, ApiError, Object
from lab.nodes.client.informer import Informer

RBAC = "/apis/rbac.authorization.k8s.io/v1"
LABEL = "lab.shardyard.dev/access"
"""On every object that this module makes."""
READ_EVERYTHING = "eks:admin-view"

CLUSTER_ROLES = {
    "AmazonEKSClusterAdminPolicy": "cluster-admin",
    "AmazonEKSAdminPolicy": "admin",
    "AmazonEKSAdminViewPolicy": READ_EVERYTHING,
    "AmazonEKSEditPolicy": "edit",
    "AmazonEKSViewPolicy": "view",
}
"""EKS access policy → the ClusterRole that AWS's documentation compares it to; for AdminView, one made here."""


@dataclass(frozen=True)
class Binding:
    """One role for one access entry, in one namespace or ("") everywhere."""

    entry: str
    username: str
    role: str
    namespace: str = ""

    @property
    def name(self) -> str:
        # An ARN has characters that are not allowed in an object's name.
        digest = hashlib.sha256(f"{self.entry} {self.username}".encode()).hexdigest()[:12]
        return f"eks:{self.role.removeprefix('eks:')}:{digest}"

    @property
    def collection(self) -> str:
        if self.namespace:
            return f"{RBAC}/namespaces/{self.namespace}/rolebindings"
        return f"{RBAC}/clusterrolebindings"

    def object(self) -> Object:
        """Bound to the entry's group, which the token webhook adds to callers, and to its username: that matches
        only a plain one, since RBAC doesn't know patterns ({{SessionName}})."""
        group = "rbac.authorization.k8s.io"
        metadata: Object = {"name": self.name, "labels": {LABEL: "entry"}}
        if self.namespace:
            metadata["namespace"] = self.namespace
        return {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding" if self.namespace else "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": self.role},
            "subjects": [
                {"apiGroup": group, "kind": "Group", "name": access_group(self.entry)},
                {"apiGroup": group, "kind": "User", "name": self.username},
            ],
        }


def bindings(entries: Iterable[AccessEntry]) -> set[Binding]:
    """Raises ValueError for a policy that the lab doesn't know."""
    found = set()
    for entry in entries:
        for policy, namespaces in entry.policies:
            if policy not in CLUSTER_ROLES:
                raise ValueError(f"unknown access policy {policy}; one of {', '.join(sorted(CLUSTER_ROLES))}")
            for namespace in namespaces or ("",):
                found.add(Binding(entry.principal_arn, entry.username, CLUSTER_ROLES[policy], namespace))
    return found


class AccessPolicies:
    """Keeps a cluster's bindings equal to its access entries.

    A policy may name a namespace that doesn't exist yet; its binding is made when the namespace is.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._wanted: set[Binding] = set()
        client.apply(f"{RBAC}/clusterroles/{READ_EVERYTHING}", _read_everything())
        self._informer = Informer(client, "/api/v1/namespaces", self._on_namespace)

    def stop(self) -> None:
        self._informer.stop()

    def replace(self, entries: Sequence[AccessEntry]) -> None:
        wanted = bindings(entries)
        with self._lock:
            self._wanted = wanted
            for binding in sorted(wanted, key=lambda b: (b.namespace, b.name)):
                self._apply(binding)
            self._delete_others({f"{b.collection}/{b.name}" for b in wanted})

    def _on_namespace(self, kind: str, namespace: Object) -> None:
        if kind != "ADDED":
            return
        with self._lock:
            for binding in self._wanted:
                if binding.namespace == namespace["metadata"]["name"]:
                    self._apply(binding)

    def _apply(self, binding: Binding) -> None:
        try:
            self._client.apply(f"{binding.collection}/{binding.name}", binding.object())
        except ApiError as error:
            # 404: no such namespace yet. 403: it is being deleted.
            if not (binding.namespace and error.status in (403, 404)):
                raise

    def _delete_others(self, wanted: set[str]) -> None:
        for kind in ("clusterrolebindings", "rolebindings"):
            for found in self._client.items(f"{RBAC}/{kind}", labelSelector=f"{LABEL}=entry"):
                metadata = found["metadata"]
                inside = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
                path = f"{RBAC}/{inside}{kind}/{metadata['name']}"
                if path not in wanted:
                    self._client.delete(path)


def _read_everything() -> Object:
    verbs = ["get", "list", "watch"]
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": READ_EVERYTHING, "labels": {LABEL: "role"}},
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": verbs},
            {"nonResourceURLs": ["*"], "verbs": verbs},
        ],
    }
