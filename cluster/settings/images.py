"""Third-party images, pinned. A stack file overrides any of them (a mirror, the lab's registry)."""

from __future__ import annotations

from cluster.settings.base import Image, Section, Unpinned


def _at(name: str, digest: str) -> str:
    """The name with its tag says what it is; the digest, which wins, that it never changes."""
    return f"{name}@sha256:{digest}"


class Images(Section):
    """One entry for each program that runs in the cluster and that neither EKS nor we build."""

    nvidia_device_plugin: Image = _at(
        "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        "a61ba9fd8efb82f3a79f877f7580e02c1e8e7593f62473644bc9c79e315c3312",
    )
    efa_device_plugin: Image = Unpinned(
        tag="public.ecr.aws/eks/aws-efa-k8s-device-plugin:v0.5.20",
        unpinned="AWS publishes this image by tag; record the digest after the first pull",
    )
    training_operator: Image = Unpinned(
        tag="docker.io/kubeflow/training-operator:v1-04f9f13",
        unpinned="the tag that the v1.8.1 manifests name; record the digest after the first pull",
    )
    prometheus: Image = _at(
        "docker.io/prom/prometheus:v3.5.0", "63805ebb8d2b3920190daf1cb14a60871b16fd38bed42b857a3182bc621f4996"
    )
