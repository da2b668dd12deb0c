"""The Kubernetes provider of a stack, and the options that every object in the cluster has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from cluster.control_plane import ControlPlane


@dataclass(frozen=True)
class Kubernetes:
    """Where objects go."""

    provider: kubernetes.Provider
    cluster: pulumi.Resource
    """Objects are deleted with it: on destroy its removal is enough, and nothing waits for each of them."""

    def component(self, depends_on: Sequence[pulumi.Resource] = ()) -> pulumi.ResourceOptions:
        """Options of a component whose objects live in the cluster."""
        return pulumi.ResourceOptions(providers=[self.provider], depends_on=list(depends_on))

    def object(
        self, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource] = ()
    ) -> pulumi.ResourceOptions:
        """Options of an object."""
        return pulumi.ResourceOptions(
            parent=parent, provider=self.provider, depends_on=list(depends_on), deleted_with=self.cluster
        )


def connect(name: str, control_plane: ControlPlane, depends_on: Sequence[pulumi.Resource]) -> Kubernetes:
    """A provider that can be used once everything in `depends_on` is there (nodes, add-ons, access)."""
    provider = kubernetes.Provider(
        name,
        kubeconfig=control_plane.kubeconfig,
        # Without it another endpoint or CA in the kubeconfig looks like another cluster, and the engine
        # would replace every object.
        cluster_identifier=name,
        enable_server_side_apply=True,
        opts=pulumi.ResourceOptions(depends_on=list(depends_on)),
    )
    return Kubernetes(provider, control_plane.cluster)
