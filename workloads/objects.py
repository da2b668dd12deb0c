"""Kubernetes objects from manifests, for kinds and files that aren't ours to spell out."""

from __future__ import annotations

from importlib.metadata import version

import pulumi

from workloads.manifests import Manifest


class Object(pulumi.CustomResource):
    """One object of any kind, exactly as its manifest says it. Values may be outputs.

    The engine sees the object's own type, so that the provider awaits a Deployment as a Deployment.
    """

    def __init__(self, name: str, manifest: Manifest, opts: pulumi.ResourceOptions) -> None:
        # The plugin that the SDK's own classes ask for.
        plugin = pulumi.ResourceOptions(version=version("pulumi-kubernetes"))
        super().__init__(
            type_token(manifest), name, dict(manifest), pulumi.ResourceOptions.merge(plugin, opts)
        )


def type_token(manifest: Manifest) -> str:
    """kubernetes:apps/v1:Deployment; the group without a name is called core."""
    api = manifest["apiVersion"]
    return f"kubernetes:{api if '/' in api else f'core/{api}'}:{manifest['kind']}"
