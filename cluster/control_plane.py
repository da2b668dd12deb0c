"""The EKS control plane, and the add-ons that the first node needs."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

from cluster.network import Network
from cluster.settings.sections import KubernetesSettings

BEFORE_NODES = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
"""DaemonSets that make a node Ready. The CNI outlives the nodes on destroy too, or it leaks their interfaces."""
AFTER_NODES = ("coredns", "aws-fsx-csi-driver")
"""Deployments: without a node to run on they stay DEGRADED, and `up` waits 20 minutes for them."""


class ControlPlane(pulumi.ComponentResource):
    """The cluster, its key and its log group."""

    cluster: eks.Cluster
    cluster_name: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    """JSON; it calls `aws eks get-token` and holds no secret."""
    security_group_id: pulumi.Output[str]
    """The cluster security group, which EKS creates and attaches to nodes."""
    addons: list[eks.Addon]

    def __init__(
        self,
        name: str,
        settings: KubernetesSettings,
        *,
        network: Network,
        provider: aws.Provider,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("shardyard:cluster:ControlPlane", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        key = aws.kms.Key(
            f"{name}-secrets",
            description=f"Secrets in the etcd of {name}",
            enable_key_rotation=True,
            deletion_window_in_days=7,
            opts=child,
        )
        aws.kms.Alias(f"{name}-secrets", name=f"alias/{name}-secrets", target_key_id=key.key_id, opts=child)
        # Otherwise EKS creates the log group, without retention, and doesn't delete it with the cluster.
        logs = aws.cloudwatch.LogGroup(
            f"{name}-control-plane",
            name=f"/aws/eks/{name}/cluster",
            retention_in_days=settings.log_retention_days,
            opts=child,
        )
        self.cluster = eks.Cluster(
            name,
            name=name,
            version=settings.version,
            vpc_id=network.vpc_id,
            subnet_ids=network.control_plane_subnet_ids,
            authentication_mode=eks.AuthenticationMode.API,
            # Node groups and add-ons are created here, at pinned versions. The component's defaults are
            # a node group of its own and versions that are looked up on each run.
            skip_default_node_group=True,
            skip_default_security_groups=True,
            create_instance_role=False,
            use_default_vpc_cni=True,
            bootstrap_self_managed_addons=False,
            kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(enabled=False),
            coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
            create_oidc_provider=False,  # pods get their roles through pod identity
            encryption_config_key_arn=key.arn,
            enabled_cluster_log_types=list(settings.log_types),
            kubernetes_service_ip_address_range=settings.service_cidr,
            endpoint_private_access=True,
            endpoint_public_access=bool(settings.public_access_cidrs),
            public_access_cidrs=list(settings.public_access_cidrs) or None,
            deletion_protection=settings.deletion_protection,
            cluster_tags={"Name": name},
            opts=pulumi.ResourceOptions(parent=self, providers=[provider], depends_on=[logs]),
        )
        core = self.cluster.eks_cluster
        self.cluster_name = core.name
        self.endpoint = core.endpoint
        self.kubeconfig = self.cluster.kubeconfig_json
        self.security_group_id = core.vpc_config.apply(lambda config: config.cluster_security_group_id)
        versions = settings.addons.by_name()
        configuration = {"vpc-cni": vpc_cni_configuration(settings.prefix_delegation)}
        self.addons = [
            addon(self.cluster, f"{name}-{kind}", kind, versions[kind], configuration.get(kind), parent=self)
            for kind in BEFORE_NODES
        ]
        self.register_outputs({"cluster_name": self.cluster_name, "endpoint": self.endpoint})


def vpc_cni_configuration(prefix_delegation: bool) -> dict[str, object]:
    """Values of the vpc-cni add-on."""
    if not prefix_delegation:
        return {}
    return {"env": {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1"}}


def addon(
    cluster: eks.Cluster,
    name: str,
    kind: str,
    version: str,
    configuration: dict[str, object] | None = None,
    *,
    parent: pulumi.Resource,
    depends_on: Sequence[pulumi.Resource] = (),
) -> eks.Addon:
    """An EKS add-on at a pinned version. Removing it removes its Kubernetes objects."""
    return eks.Addon(
        name,
        cluster=cluster,
        addon_name=kind,
        addon_version=version,
        configuration_values=configuration or None,
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        preserve=False,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(depends_on)),
    )
