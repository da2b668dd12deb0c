"""Versions that must go together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cluster.settings.pools import AcceleratedPool, SystemPool
from cluster.settings.problems import Problem
from cluster.settings.sections import Kubernetes

EFA_ONLY_NEEDS_CNI = (1, 18, 4)
"""First vpc-cni that leaves efa-only interfaces alone (its release notes)."""


def kube_proxy_matches(kubernetes: Kubernetes) -> Iterator[Problem]:
    if not kubernetes.addons.kube_proxy.startswith(f"v{kubernetes.version}."):
        yield Problem(
            "kubernetes.addons.kube-proxy",
            f"{kubernetes.addons.kube_proxy} is not for Kubernetes {kubernetes.version}",
            f"aws eks describe-addon-versions --addon-name kube-proxy --kubernetes-version {kubernetes.version}",
        )


def ami_releases_match(
    kubernetes: Kubernetes, system_pool: SystemPool, pools: Mapping[str, AcceleratedPool]
) -> Iterator[Problem]:
    releases = {"kubernetes": kubernetes.ami_release, "systemPool": system_pool.ami_release}
    releases |= {f"pools.{name}": pool.ami_release for name, pool in pools.items()}
    for path, release in releases.items():
        if release and not release.startswith(f"{kubernetes.version}."):
            yield Problem(
                f"{path}.amiRelease",
                f"{release} is not for Kubernetes {kubernetes.version}",
                "Releases are listed at github.com/awslabs/amazon-eks-ami/releases.",
            )


def cni_knows_efa_only(kubernetes: Kubernetes, pools: Mapping[str, AcceleratedPool]) -> Iterator[Problem]:
    numbers = re.findall(r"\d+", kubernetes.addons.vpc_cni)[:3]
    if tuple(map(int, numbers)) < EFA_ONLY_NEEDS_CNI and any(
        pool.efa.layout == "efa-only" and pool.efa.interfaces != 0 for pool in pools.values()
    ):
        yield Problem(
            "kubernetes.addons.vpc-cni",
            f"{kubernetes.addons.vpc_cni} can't handle efa-only interfaces",
            "Use v1.18.4 or later, or the pools' efa.layout: efa.",
        )


CHECKS = (kube_proxy_matches, ami_releases_match, cni_knows_efa_only)
