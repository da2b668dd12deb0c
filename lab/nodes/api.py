"""The interface between the emulator's EKS and this machine: clusters, nodes, add-ons and access.

`lab.aws` decides what exists (instances, capacity, names); `lab.nodes` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class ClusterSpec:
    name: str
    version: str
    """Kubernetes minor version, such as "1.34"."""
    arn: str


@dataclass(frozen=True)
class ClusterEndpoint:
    url: str
    certificate_authority: str
    """PEM in base64, as DescribeCluster gives it."""
    service_cidr: str


@dataclass(frozen=True)
class Taint:
    key: str
    value: str
    effect: str
    """NoSchedule, PreferNoSchedule or NoExecute: Kubernetes' spelling, not EKS's."""


@dataclass(frozen=True)
class NodeSpec:
    """One node: real, with a kubelet that runs pods, or simulated by kwok."""

    name: str
    """ip-10-20-1-7.ec2.internal"""
    instance_id: str
    instance_type: str
    region: str
    zone: str
    zone_id: str
    private_ip: str
    nodegroup: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    cpu: str = "2"
    """CPU and memory are Kubernetes quantities: those of the instance type; a real node reports the machine's."""
    memory: str = "8Gi"
    pods: int = 110
    resources: Mapping[str, str] = field(default_factory=dict)
    """Further allocatable resources, such as {"hugepages-2Mi": "42242Mi"}; a real node reports the machine's."""
    devices: Mapping[str, int] = field(default_factory=dict)
    """Extended resources, such as {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}. Each appears on the node
    once its device plugin runs there."""
    real: bool = False


@dataclass(frozen=True)
class AccessEntry:
    """An EKS access entry with its access policies."""

    principal_arn: str
    username: str
    groups: Sequence[str] = ()
    policies: Sequence[tuple[str, Sequence[str]]] = ()
    """(policy name such as "AmazonEKSClusterAdminPolicy", namespaces; none means the whole cluster)."""


def access_group(principal_arn: str) -> str:
    """The Kubernetes group of one access entry.

    The token webhook adds it to a caller's groups, and the entry's access policies are bound to it: a username can be
    a pattern (…/{{SessionName}}), which no RBAC binding can name.
    """
    return f"shardyard:access-entry:{principal_arn}"


class Runtime(Protocol):
    """Calls block until done; the emulator makes them in worker threads. All are idempotent.

    Those that name an unknown cluster raise LookupError.
    """

    def create_cluster(self, spec: ClusterSpec) -> ClusterEndpoint:
        """Start etcd, API server, controller manager and scheduler; returns once /readyz is ok."""

    def delete_cluster(self, name: str) -> None:
        """Stop all of the cluster's programs and remove its files."""

    def add_nodes(self, cluster: str, nodes: Sequence[NodeSpec]) -> None:
        """Returns once every node is Ready. Raises RuntimeError naming those that are not."""

    def remove_nodes(self, cluster: str, names: Sequence[str]) -> None:
        """Drain the nodes (for a bounded time), delete the Node objects and stop the kubelets."""

    def install_addon(self, cluster: str, name: str, version: str, values: Mapping[str, object]) -> None:
        """Install vpc-cni, kube-proxy, coredns or aws-fsx-csi-driver; others have nothing to run here."""

    def remove_addon(self, cluster: str, name: str) -> None: ...

    def apply_access(self, cluster: str, entries: Sequence[AccessEntry]) -> None:
        """Bind the access policies of these entries, and delete the bindings of others."""

    def shutdown(self) -> None:
        """Stop everything of every cluster (the emulator is going down)."""
