"""Kubernetes versions that EKS offers, and what follows from them."""

from __future__ import annotations

from typing import Any

from lab.aws.actions import ApiError, Call, action

PLATFORM_VERSIONS = {"1.32": "eks.30", "1.33": "eks.24", "1.34": "eks.16", "1.35": "eks.5"}
"""By Kubernetes version; the lab itself runs the one that its toolchain holds."""
DEFAULT = "1.34"


def check(version: str) -> str:
    if version not in PLATFORM_VERSIONS:
        raise ApiError("InvalidParameterException", f"unsupported Kubernetes version: {version}")
    return version


def minor(version: str) -> int:
    return int(version.split(".")[1])


@action("eks", "DescribeClusterVersions")
def describe_cluster_versions(call: Call) -> dict[str, Any]:
    wanted = call.get("clusterVersions") or list(PLATFORM_VERSIONS)
    return {
        "clusterVersions": [
            {
                "clusterVersion": version,
                "clusterType": "eks",
                "defaultPlatformVersion": platform,
                "defaultVersion": version == DEFAULT,
                "status": "STANDARD_SUPPORT",
                "versionStatus": "STANDARD_SUPPORT",
                "kubernetesPatchVersion": f"{version}.9",
            }
            for version, platform in PLATFORM_VERSIONS.items()
            if version in wanted
        ]
    }
