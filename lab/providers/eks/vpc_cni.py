"""pulumi-eks's VpcCniAddon: the vpc-cni add-on with its settings as environment variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from lab.providers.eks.addon import as_text, pinned_or_newest
from lab.providers.eks.arguments import Arguments


def _flag(value: bool) -> str:
    return "true" if value else "false"


# (argument, variable, how it's written, what holds without it; None leaves the variable out)
_VARIABLES: tuple[tuple[str, str, Callable[[Any], str], str | None], ...] = (
    ("nodePortSupport", "AWS_VPC_CNI_NODE_PORT_SUPPORT", _flag, None),
    ("warmEniTarget", "WARM_ENI_TARGET", str, "1"),
    ("warmIpTarget", "WARM_IP_TARGET", str, None),
    ("warmPrefixTarget", "WARM_PREFIX_TARGET", str, None),
    ("enablePrefixDelegation", "ENABLE_PREFIX_DELEGATION", _flag, None),
    ("logLevel", "AWS_VPC_K8S_CNI_LOGLEVEL", str, "DEBUG"),
    ("logFile", "AWS_VPC_K8S_CNI_LOG_FILE", str, "/host/var/log/aws-routed-eni/ipamd.log"),
    ("vethPrefix", "AWS_VPC_K8S_CNI_VETHPREFIX", str, "eni"),
    ("eniMtu", "AWS_VPC_ENI_MTU", str, "9001"),
    ("eniConfigLabelDef", "ENI_CONFIG_LABEL_DEF", str, None),
    ("pluginLogLevel", "AWS_VPC_K8S_PLUGIN_LOG_LEVEL", str, "DEBUG"),
    ("pluginLogFile", "AWS_VPC_K8S_PLUGIN_LOG_FILE", str, "/var/log/aws-routed-eni/plugin.log"),
    ("enablePodEni", "ENABLE_POD_ENI", _flag, "false"),
    ("cniConfigureRpfilter", "AWS_VPC_K8S_CNI_CONFIGURE_RPFILTER", _flag, None),
    ("cniCustomNetworkCfg", "AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG", _flag, "false"),
    ("cniExternalSnat", "AWS_VPC_K8S_CNI_EXTERNALSNAT", _flag, "false"),
)


@dataclass(frozen=True)
class CniOptions:
    """vpcCniOptions of eks.Cluster."""

    version: Any
    settings: dict[str, Any]
    early_demux: Any
    network_policy: Any
    configuration_values: Any
    on_create: Any
    on_update: Any
    role_arn: Any

    @classmethod
    def read(cls, arguments: Arguments) -> CniOptions:
        return cls(
            version=arguments.take("addonVersion"),
            settings={variable: arguments.take(argument) for argument, variable, _, _ in _VARIABLES},
            early_demux=arguments.take("disableTcpEarlyDemux"),
            network_policy=arguments.take("enableNetworkPolicy"),
            configuration_values=arguments.take("configurationValues"),
            on_create=arguments.take("resolveConflictsOnCreate", "OVERWRITE"),
            on_update=arguments.take("resolveConflictsOnUpdate", "OVERWRITE"),
            role_arn=arguments.take("serviceAccountRoleArn"),
        )


class VpcCniAddon(pulumi.ComponentResource):
    addon: aws.eks.Addon

    def __init__(
        self,
        name: str,
        options: CniOptions,
        *,
        cluster: aws.eks.Cluster,
        tags: Any,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("eks:index:VpcCniAddon", name, None, opts)
        values = pulumi.Output.all(
            settings=options.settings,
            early_demux=options.early_demux,
            policy=options.network_policy,
            given=options.configuration_values or {},
        ).apply(_configuration)
        self.addon = aws.eks.Addon(
            name,
            cluster_name=cluster.name,
            addon_name="vpc-cni",
            addon_version=pinned_or_newest(options.version, "vpc-cni", cluster, self),
            resolve_conflicts_on_create=options.on_create,
            resolve_conflicts_on_update=options.on_update,
            preserve=True,
            configuration_values=as_text(values),
            service_account_role_arn=options.role_arn,
            tags=tags,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({})


def _configuration(parts: dict[str, Any]) -> dict[str, Any]:
    """The add-on's values: the program's own over what the arguments say."""
    environment = {}
    for _, variable, write, default in _VARIABLES:
        value = parts["settings"].get(variable)
        # Like pulumi-eks, a false or a zero counts as not set, except where it has a default.
        text = write(value) if value else default
        if text is not None:
            environment[variable] = text
    initial = {"DISABLE_TCP_EARLY_DEMUX": _flag(bool(parts["early_demux"]))}
    given = dict(parts["given"])
    if parts["policy"] is not None:
        given.setdefault("enableNetworkPolicy", _flag(parts["policy"]))
    init = dict(given.get("init") or {})
    return {
        **given,
        "env": {**environment, **(given.get("env") or {})},
        "init": {**init, "env": {**initial, **(init.get("env") or {})}},
    }
