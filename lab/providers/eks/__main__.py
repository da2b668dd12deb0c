"""`pulumi-resource-eks [flags] ENGINE`: serve the components until the engine goes away."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pulumi
import pulumi.provider

# Resource references among the arguments become objects of these packages once they are imported.
import pulumi_aws  # noqa: F401
import pulumi_eks  # noqa: F401

from lab.providers.eks.addon import Addon
from lab.providers.eks.arguments import Arguments
from lab.providers.eks.cluster import Cluster
from lab.providers.eks.node_group import ManagedNodeGroup
from lab.providers.parent import die_with_parent

Construct = Callable[[str, Arguments, pulumi.ResourceOptions], tuple[pulumi.Resource, dict[str, Any]]]


def _cluster(name: str, arguments: Arguments, opts: pulumi.ResourceOptions) -> Any:
    made = Cluster(name, arguments, opts)
    return made, made.state


def _node_group(name: str, arguments: Arguments, opts: pulumi.ResourceOptions) -> Any:
    made = ManagedNodeGroup(name, arguments, opts)
    return made, {"nodeGroup": made.node_group, "placementGroupName": ""}


def _addon(name: str, arguments: Arguments, opts: pulumi.ResourceOptions) -> Any:
    return Addon(name, arguments, opts), {}


COMPONENTS: dict[str, Construct] = {
    "eks:index:Cluster": _cluster,
    "eks:index:ManagedNodeGroup": _node_group,
    "eks:index:Addon": _addon,
}


class Provider(pulumi.provider.Provider):
    """Every component by its token."""

    def construct(
        self,
        name: str,
        resource_type: str,
        inputs: Any,
        options: pulumi.ResourceOptions | None = None,
    ) -> pulumi.provider.ConstructResult:
        construct = COMPONENTS.get(resource_type)
        if construct is None:
            raise ValueError(f"the lab's EKS plugin has {', '.join(COMPONENTS)}, but no {resource_type}")
        arguments = Arguments(resource_type, inputs)
        made, state = construct(name, arguments, options or pulumi.ResourceOptions())
        return pulumi.provider.ConstructResult(urn=made.urn, state=state)


def main() -> None:
    die_with_parent()
    pulumi.provider.main(Provider(version("pulumi-eks")), sys.argv[1:])


if __name__ == "__main__":
    main()
