"""The add-ons that can be installed, and their versions by Kubernetes version."""

from __future__ import annotations

import re
from typing import Any

from lab.aws.actions import ApiError, Call, action
from lab.aws.eks.versions import PLATFORM_VERSIONS

VERSION = re.compile(r"^v\d+\.\d+\.\d+(-\w+(\.\w+)*)?-eksbuild\.\d+$")

CATALOG: dict[str, tuple[str, str, str]] = {
    "vpc-cni": ("networking", "kube-system", "v1.22.4-eksbuild.3"),
    "kube-proxy": ("networking", "kube-system", "v{kubernetes}.6-eksbuild.21"),
    "coredns": ("networking", "kube-system", "v1.12.4-eksbuild.29"),
    "eks-pod-identity-agent": ("security", "kube-system", "v1.3.10-eksbuild.3"),
    "eks-node-monitoring-agent": ("observability", "kube-system", "v1.4.2-eksbuild.1"),
    "aws-ebs-csi-driver": ("storage", "kube-system", "v1.53.0-eksbuild.1"),
    "aws-efs-csi-driver": ("storage", "kube-system", "v2.1.15-eksbuild.1"),
    "aws-fsx-csi-driver": ("storage", "kube-system", "v1.9.0-eksbuild.1"),
    "aws-mountpoint-s3-csi-driver": ("storage", "kube-system", "v2.2.1-eksbuild.1"),
    "amazon-cloudwatch-observability": ("observability", "amazon-cloudwatch", "v4.7.0-eksbuild.1"),
    "metrics-server": ("observability", "kube-system", "v0.8.0-eksbuild.5"),
    "prometheus-node-exporter": ("observability", "prometheus-node-exporter", "v1.10.2-eksbuild.3"),
    "kube-state-metrics": ("observability", "kube-state-metrics", "v2.17.0-eksbuild.4"),
    "cert-manager": ("security", "cert-manager", "v1.19.1-eksbuild.1"),
    "snapshot-controller": ("storage", "kube-system", "v8.3.0-eksbuild.1"),
}
"""By name: its type, its namespace and the version that DescribeAddonVersions calls the default."""


def check(name: str) -> None:
    if name not in CATALOG:
        raise ApiError("InvalidParameterException", f"Addon {name} not supported", addonName=name)


def check_version(name: str, version: str) -> str:
    """A version of the right form. (AWS knows which exist; this lab takes any that could.)"""
    if not VERSION.match(version):
        raise ApiError(
            "InvalidParameterException",
            f"Addon version specified is not supported: {version}",
            addonName=name,
        )
    return version


def default_version(name: str, kubernetes: str) -> str:
    return CATALOG[name][2].format(kubernetes=kubernetes)


def namespace(name: str) -> str:
    return CATALOG[name][1]


@action("eks", "DescribeAddonVersions")
def describe_addon_versions(call: Call) -> dict[str, Any]:
    wanted = [call["addonName"]] if call.get("addonName") else list(CATALOG)
    versions = [call["kubernetesVersion"]] if call.get("kubernetesVersion") else list(PLATFORM_VERSIONS)
    return {"addons": [_described(name, versions) for name in wanted if name in CATALOG]}


def _described(name: str, kubernetes_versions: list[str]) -> dict[str, Any]:
    kind, space, _ = CATALOG[name]
    by_version: dict[str, list[str]] = {}
    for kubernetes in kubernetes_versions:
        by_version.setdefault(default_version(name, kubernetes), []).append(kubernetes)
    return {
        "addonName": name,
        "type": kind,
        "defaultNamespace": space,
        "publisher": "eks",
        "owner": "aws",
        "addonVersions": [
            {
                "addonVersion": version,
                "architecture": ["amd64", "arm64"],
                "compatibilities": [
                    {"clusterVersion": one, "platformVersions": ["*"], "defaultVersion": True}
                    for one in fitting
                ],
                "requiresConfiguration": False,
                "requiresIamPermissions": False,
            }
            for version, fitting in by_version.items()
        ],
    }


@action("eks", "DescribeAddonConfiguration")
def describe_addon_configuration(call: Call) -> dict[str, Any]:
    check(call["addonName"])
    return {
        "addonName": call["addonName"],
        "addonVersion": check_version(call["addonName"], call["addonVersion"]),
        "configurationSchema": '{"$schema": "http://json-schema.org/draft-06/schema#", "type": "object"}',
        "podIdentityConfiguration": [],
    }
