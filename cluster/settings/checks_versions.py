"""Versions that must fit each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cluster.settings.node_groups import NodeGroupSettings, SystemNodeGroupSettings
from cluster.settings.problems import Problem
from cluster.settings.sections import KubernetesSettings

EFA_ONLY_NEEDS_CNI = (1, 18, 4)
"""First vpc-cni that doesn't manage efa-only interfaces (its release notes)."""


def kube_proxy_matches(kubernetes: KubernetesSettings) -> Iterator[Problem]:
    if not kubernetes.addons.kube_proxy.startswith(f"v{kubernetes.version}."):
        yield Problem(
            "kubernetes.addons.kube-proxy",
            f"{kubernetes.addons.kube_proxy} is not for Kubernetes {kubernetes.version}",
            f"aws eks describe-addon-versions --addon-name kube-proxy --kubernetes-version {kubernetes.version}",
        )


def ami_releases_match(
    kubernetes: KubernetesSettings,
    system_node_group: SystemNodeGroupSettings,
    node_groups: Mapping[str, NodeGroupSettings],
) -> Iterator[Problem]:
    releases = {"kubernetes": kubernetes.ami_release_version}
    releases |= {"systemNodeGroup": system_node_group.ami_release_version or ""}
    releases |= {f"nodeGroups.{name}": group.ami_release_version or "" for name, group in node_groups.items()}
    for path, release in releases.items():
        if release and not release.startswith(f"{kubernetes.version}."):
            yield Problem(
                f"{path}.amiReleaseVersion",
                f"{release} is not for Kubernetes {kubernetes.version}",
                "Releases are listed at github.com/awslabs/amazon-eks-ami/releases.",
            )


def cni_supports_efa_only(
    kubernetes: KubernetesSettings, node_groups: Mapping[str, NodeGroupSettings]
) -> Iterator[Problem]:
    numbers = re.findall(r"\d+", kubernetes.addons.vpc_cni)[:3]
    if tuple(map(int, numbers)) < EFA_ONLY_NEEDS_CNI and any(
        group.efa.interface_type == "efa-only" and group.efa_interfaces for group in node_groups.values()
    ):
        yield Problem(
            "kubernetes.addons.vpc-cni",
            f"{kubernetes.addons.vpc_cni} doesn't support efa-only interfaces",
            "Use v1.18.4 or later, or set efa.interfaceType of the node groups to efa.",
        )
