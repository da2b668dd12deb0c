"""EKS access policies as RBAC bindings."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.nodes.api import AccessEntry, access_group
from lab.nodes.client import ApiError, Client, Object
from lab.nodes.follow import Follower

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MARK = "lab.shardyard.dev/access"
"""Label of every object that this module made."""
READ_EVERYTHING = "eks:admin-view"

CLUSTER_ROLES = {
    "AmazonEKSClusterAdminPolicy": "cluster-admin",
    "AmazonEKSAdminPolicy": "admin",
    "AmazonEKSAdminViewPolicy": READ_EVERYTHING,
    "AmazonEKSEditPolicy": "edit",
    "AmazonEKSViewPolicy": "view",
}
"""What AWS documents each policy to be equal to, except AdminView, for which Kubernetes has no role of its own."""


@dataclass(frozen=True)
class Binding:
    """One role for one access entry, in one namespace or ("") everywhere."""

    entry: str
    username: str
    role: str
    namespace: str = ""

    @property
    def name(self) -> str:
        # The principal's name holds characters that no object's name may.
        digest = hashlib.sha256(f"{self.entry} {self.username}".encode()).hexdigest()[:12]
        return f"eks:{self.role.removeprefix('eks:')}:{digest}"

    @property
    def collection(self) -> str:
        if self.namespace:
            return f"{RBAC}/namespaces/{self.namespace}/rolebindings"
        return f"{RBAC}/clusterrolebindings"

    def object(self) -> Object:
        """The entry's group holds whoever the token webhook maps to it. Its username can be a pattern
        ({{SessionName}}), which RBAC doesn't know, but a plain one is bound as well."""
        group = "rbac.authorization.k8s.io"
        metadata: Object = {"name": self.name, "labels": {MARK: "entry"}}
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


class Access:
    """Keeps a cluster's bindings equal to its access entries.

    A policy may name a namespace that doesn't exist yet; its binding is made when the namespace is.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._wanted: set[Binding] = set()
        client.apply(f"{RBAC}/clusterroles/{READ_EVERYTHING}", _read_everything())
        self._follower = Follower(client, "/api/v1/namespaces", self._on_namespace)

    def stop(self) -> None:
        self._follower.stop()

    def grant(self, entries: Sequence[AccessEntry]) -> None:
        wanted = bindings(entries)
        with self._lock:
            self._wanted = wanted
            for binding in sorted(wanted, key=lambda b: (b.namespace, b.name)):
                self._make(binding)
            self._drop_others({f"{b.collection}/{b.name}" for b in wanted})

    def _on_namespace(self, kind: str, namespace: Object) -> None:
        if kind != "ADDED":
            return
        with self._lock:
            for binding in self._wanted:
                if binding.namespace == namespace["metadata"]["name"]:
                    self._make(binding)

    def _make(self, binding: Binding) -> None:
        try:
            self._client.apply(f"{binding.collection}/{binding.name}", binding.object())
        except ApiError as error:
            # 404: no such namespace yet. 403: it is being deleted.
            if not (binding.namespace and error.status in (403, 404)):
                raise

    def _drop_others(self, wanted: set[str]) -> None:
        for kind in ("clusterrolebindings", "rolebindings"):
            for found in self._client.items(f"{RBAC}/{kind}", labelSelector=f"{MARK}=entry"):
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
        "metadata": {"name": READ_EVERYTHING, "labels": {MARK: "role"}},
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": verbs},
            {"nonResourceURLs": ["*"], "verbs": verbs},
        ],
    }
