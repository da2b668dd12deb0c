"""What the emulator's EKS asks of the machine: clusters, nodes, add-ons and access.

`lab.aws` decides what exists (instances, capacity, names); `lab.nodes` makes it run.
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
    """One node. `real` asks for a kubelet that runs pods; otherwise kwok plays it."""

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
    """Kubernetes quantities: what the type would offer; a real node reports the machine's own."""
    memory: str = "8Gi"
    pods: int = 110
    resources: Mapping[str, str] = field(default_factory=dict)
    """Further allocatable resources that are there from the start, such as {"hugepages-2Mi": "42242Mi"};
    a real node reports the machine's own."""
    devices: Mapping[str, int] = field(default_factory=dict)
    """Extended resources, such as {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}. They appear
    on the node only once the device plugin of that resource runs on it."""
    real: bool = False


@dataclass(frozen=True)
class AccessEntry:
    """An EKS access entry with its policies, as the authenticator and the authoriser need it."""

    principal_arn: str
    username: str
    groups: Sequence[str] = ()
    policies: Sequence[tuple[str, Sequence[str]]] = ()
    """(policy name such as "AmazonEKSClusterAdminPolicy", namespaces; none means the whole cluster)."""


def access_group(principal_arn: str) -> str:
    """The Kubernetes group that stands for one access entry.

    The token webhook puts a caller in it beside the entry's own groups, and the entry's policies are bound to it:
    a username can be a pattern (…/{{SessionName}}), which no RBAC binding can name.
    """
    return f"shardyard:access-entry:{principal_arn}"


class Runtime(Protocol):
    """Calls block until done; the emulator makes them in worker threads. All are idempotent."""

    def create_cluster(self, spec: ClusterSpec) -> ClusterEndpoint:
        """PKI, etcd, API server, controller manager, scheduler; returns once /readyz is ok."""

    def delete_cluster(self, name: str) -> None:
        """Stop all of the cluster's programs and remove its files."""

    def add_nodes(self, cluster: str, nodes: Sequence[NodeSpec]) -> None:
        """Returns once every node is Ready; raises RuntimeError naming those that are not."""

    def remove_nodes(self, cluster: str, names: Sequence[str]) -> None:
        """Cordon, evict (with a bounded wait), delete the Node objects, stop the kubelets."""

    def install_addon(self, cluster: str, name: str, version: str, values: Mapping[str, object]) -> None:
        """vpc-cni, kube-proxy, coredns, aws-fsx-csi-driver, eks-pod-identity-agent, …"""

    def remove_addon(self, cluster: str, name: str) -> None: ...

    def apply_access(self, cluster: str, entries: Sequence[AccessEntry]) -> None:
        """Make the bindings that the policies of these entries stand for, and drop those no longer named."""

    def shutdown(self) -> None:
        """Stop everything of every cluster (the emulator is going down)."""
