"""eks.Addon, and the add-ons that eks.Cluster makes by its options."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from lab.providers.eks.arguments import Arguments


def as_text(values: Any) -> pulumi.Output[str] | None:
    """Configuration values as JSON with sorted keys, so that equal values are equal texts."""
    if values is None:
        return None
    return pulumi.Output.from_input(values).apply(
        lambda known: json.dumps(known, sort_keys=True, separators=(",", ":"))
    )


class Addon(pulumi.ComponentResource):
    addon: aws.eks.Addon

    def __init__(self, name: str, arguments: Arguments, opts: pulumi.ResourceOptions) -> None:
        cluster = arguments.take("cluster")
        values = {
            "addon_name": arguments.take("addonName"),
            "addon_version": arguments.take("addonVersion"),
            "configuration_values": as_text(arguments.take("configurationValues")),
            "preserve": arguments.take("preserve"),
            "resolve_conflicts_on_create": arguments.take("resolveConflictsOnCreate"),
            "resolve_conflicts_on_update": arguments.take("resolveConflictsOnUpdate"),
            "service_account_role_arn": arguments.take("serviceAccountRoleArn"),
            "tags": arguments.take("tags"),
        }
        arguments.finish()
        # As in pulumi-eks, whatever parent the program gives: the cluster.
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(parent=cluster))
        super().__init__("eks:index:Addon", name, None, opts)
        self.addon = aws.eks.Addon(
            name,
            cluster_name=cluster.eks_cluster.apply(lambda found: found.name),
            opts=pulumi.ResourceOptions(parent=self),
            **values,
        )
        self.register_outputs({})


@dataclass(frozen=True)
class AddonOptions:
    """kubeProxyAddonOptions or corednsAddonOptions of eks.Cluster."""

    enabled: bool
    version: Any
    configuration_values: Any
    on_create: Any
    on_update: Any

    @classmethod
    def read(cls, arguments: Arguments, enabled: bool) -> AddonOptions:
        """`enabled` is what holds when the program doesn't say."""
        given = arguments.take("enabled")
        values = arguments.take("configurationValues")
        return cls(
            enabled=enabled if given is None else bool(given),
            version=arguments.take("version"),
            configuration_values=values,
            on_create=arguments.take("resolveConflictsOnCreate", "OVERWRITE"),
            on_update=arguments.take("resolveConflictsOnUpdate", "OVERWRITE"),
        )


def pinned_or_newest(version: Any, kind: str, cluster: aws.eks.Cluster, parent: pulumi.Resource) -> Any:
    """Without a version it is the newest one at the time of each run, as with pulumi-eks: a cluster
    that should come out the same twice pins it."""
    if version is not None:
        return version
    return aws.eks.get_addon_version_output(
        addon_name=kind,
        kubernetes_version=cluster.version,
        most_recent=True,
        opts=pulumi.InvokeOutputOptions(parent=parent),
    ).version


def cluster_addon(
    name: str,
    kind: str,
    cluster: aws.eks.Cluster,
    options: AddonOptions,
    *,
    tags: Any,
    parent: pulumi.Resource,
) -> aws.eks.Addon:
    """An add-on by the options of eks.Cluster."""
    return aws.eks.Addon(
        f"{name}-{kind}",
        cluster_name=cluster.name,
        addon_name=kind,
        addon_version=pinned_or_newest(options.version, kind, cluster, parent),
        preserve=True,
        tags=tags,
        resolve_conflicts_on_create=options.on_create,
        resolve_conflicts_on_update=options.on_update,
        configuration_values=as_text(options.configuration_values),
        opts=pulumi.ResourceOptions(parent=parent),
    )
