"""eks.Cluster: the control plane with API authentication, and by option roles, add-ons and access entries."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_aws as aws

from lab.providers.eks.access import access_entries
from lab.providers.eks.addon import AddonOptions, cluster_addon
from lab.providers.eks.arguments import Arguments
from lab.providers.eks.kubeconfig import of_cluster
from lab.providers.eks.service_role import ServiceRole
from lab.providers.eks.vpc_cni import CniOptions, VpcCniAddon

_CLUSTER_ACTIONS = ("sts:AssumeRole", "sts:TagSession")
_NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly")
_OF_DEFAULT_NODES = (
    "desiredCapacity",
    "gpu",
    "instanceProfileName",
    "instanceType",
    "maxSize",
    "minSize",
    "nodeAmiId",
    "nodeAssociatePublicIpAddress",
    "nodeGroupOptions",
    "nodePublicKey",
    "nodeRootVolumeEncrypted",
    "nodeRootVolumeSize",
    "nodeSecurityGroupTags",
    "nodeSubnetIds",
    "nodeUserData",
)


class Cluster(pulumi.ComponentResource):
    """`state` is what the component gives back to the program, by pulumi-eks's output names."""

    state: dict[str, Any]

    def __init__(self, name: str, arguments: Arguments, opts: pulumi.ResourceOptions) -> None:
        settings = _read(arguments)
        super().__init__("eks:index:Cluster", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        tags = settings["tags"]

        role = settings["serviceRole"]
        service_role = None
        if role is None:
            service_role = ServiceRole(
                f"{name}-eksRole",
                "eks.amazonaws.com",
                ["AmazonEKSClusterPolicy"],
                description="Allows EKS to manage clusters on your behalf.",
                tags=tags,
                actions=_CLUSTER_ACTIONS,
                opts=child,
            )
            role = service_role.role
        cluster = _cluster(name, self, settings, role, service_role)

        for kind in ("kube-proxy", "coredns"):
            if settings[kind].enabled:
                cluster_addon(name, kind, cluster, settings[kind], tags=tags, parent=self)

        instance_roles = list(settings["instanceRoles"])
        if settings["createInstanceRole"]:
            created = ServiceRole(
                f"{name}-instanceRole", "ec2.amazonaws.com", _NODE_POLICIES, tags=tags, opts=child
            )
            instance_roles = [created.role]
        default_entry = {}
        if instance_roles and settings["hasDefaultInstanceRole"]:
            arn = pulumi.Output.from_input(instance_roles[0]).apply(lambda found: found.arn)
            default_entry = {"defaultNodeGroupInstanceRole": {"principalArn": arn, "type": "EC2_LINUX"}}
        entries = access_entries(name, self, cluster, {**default_entry, **(settings["accessEntries"] or {})})
        if not settings["useDefaultVpcCni"]:
            VpcCniAddon(
                f"{name}-vpc-cni",
                settings["vpc-cni"],
                cluster=cluster,
                tags=tags,
                opts=pulumi.ResourceOptions(parent=self, depends_on=entries),
            )
        self.state = _outputs(cluster, settings, instance_roles, role)
        self.register_outputs(self.state)


def _read(arguments: Arguments) -> dict[str, Any]:
    """The arguments that it honours; all others have to be left out or neutral."""
    arguments.require(
        "authenticationMode",
        "API",
        "has to be 'API': pulumi-eks makes an aws-auth ConfigMap for every other mode, which the lab doesn't",
    )
    arguments.require("skipDefaultNodeGroup", True, "has to be true: the lab makes no default node group")
    arguments.require(
        "skipDefaultSecurityGroups",
        True,
        "has to be true: the lab makes no security groups of pulumi-eks's own",
    )
    for name in _OF_DEFAULT_NODES:
        arguments.neutral(name, False, reason="is about the default node group, which the lab doesn't make")
    for name in ("createOidcProvider", "fargate", "enableConfigMapMutable"):
        arguments.neutral(name, False)
    for name in ("roleMappings", "userMappings", "clusterSecurityGroupTags"):
        arguments.neutral(name, [], {})
    taken = (
        "accessEntries",
        "bootstrapSelfManagedAddons",
        "clusterTags",
        "deletionProtection",
        "enabledClusterLogTypes",
        "encryptionConfigKeyArn",
        "endpointPrivateAccess",
        "endpointPublicAccess",
        "ipFamily",
        "kubernetesServiceIpAddressRange",
        "name",
        "privateSubnetIds",
        "providerCredentialOpts",
        "publicAccessCidrs",
        "publicSubnetIds",
        "serviceRole",
        "subnetIds",
        "tags",
        "upgradePolicy",
        "version",
        "vpcId",
    )
    settings = {name: arguments.take(name) for name in taken}
    one, several = arguments.take("instanceRole"), arguments.take("instanceRoles")
    if one is not None and several:
        arguments.refuse("instanceRole", "can't be set together with instanceRoles")
    settings["instanceRoles"] = several or ([one] if one is not None else [])
    settings["createInstanceRole"] = (
        bool(arguments.take("createInstanceRole")) and not settings["instanceRoles"]
    )
    settings["hasDefaultInstanceRole"] = one is not None or settings["createInstanceRole"]
    settings["useDefaultVpcCni"] = bool(arguments.take("useDefaultVpcCni"))
    if settings["subnetIds"] and (settings["privateSubnetIds"] or settings["publicSubnetIds"]):
        arguments.refuse("subnetIds", "can't be set together with privateSubnetIds or publicSubnetIds")
    if not any(settings[name] for name in ("subnetIds", "privateSubnetIds", "publicSubnetIds")):
        arguments.refuse("subnetIds", "has to be set: the lab has no default VPC")
    if settings["publicAccessCidrs"] and settings["endpointPublicAccess"] is False:
        arguments.refuse("publicAccessCidrs", "can only be set when endpointPublicAccess is true")
    kube_proxy, coredns, cni = (
        arguments.nested(name) for name in ("kubeProxyAddonOptions", "corednsAddonOptions", "vpcCniOptions")
    )
    settings["kube-proxy"] = AddonOptions.read(kube_proxy, enabled=True)
    # CoreDNS needs nodes, and there is no default node group here: only on request.
    settings["coredns"] = AddonOptions.read(coredns, enabled=coredns.take("configurationValues") is not None)
    settings["vpc-cni"] = CniOptions.read(cni)
    for inner in (kube_proxy, coredns, cni):
        inner.leftovers()
    arguments.finish()
    return settings


def _subnets(settings: dict[str, Any]) -> Any:
    if settings["subnetIds"]:
        return settings["subnetIds"]
    both = [settings["publicSubnetIds"] or [], settings["privateSubnetIds"] or []]
    return pulumi.Output.all(*both).apply(lambda lists: [*lists[0], *lists[1]])


def _tags(name: str, settings: dict[str, Any]) -> pulumi.Output[dict[str, str]]:
    return pulumi.Output.all(settings["clusterTags"] or {}, settings["tags"] or {}).apply(
        lambda parts: {"Name": f"{name}-eksCluster", **parts[0], **parts[1]}
    )


def _cluster(
    name: str,
    parent: pulumi.Resource,
    settings: dict[str, Any],
    role: Any,
    service_role: ServiceRole | None,
) -> aws.eks.Cluster:
    network = None
    if settings["kubernetesServiceIpAddressRange"] or settings["ipFamily"]:
        network = {
            "service_ipv4_cidr": settings["kubernetesServiceIpAddressRange"],
            "ip_family": settings["ipFamily"] or "ipv4",
        }
    key = settings["encryptionConfigKeyArn"]
    bootstrap = settings["bootstrapSelfManagedAddons"]
    return aws.eks.Cluster(
        f"{name}-eksCluster",
        name=settings["name"],
        role_arn=service_role.ready_arn
        if service_role
        else pulumi.Output.from_input(role).apply(lambda found: found.arn),
        vpc_config={
            "subnet_ids": _subnets(settings),
            "endpoint_private_access": settings["endpointPrivateAccess"],
            "endpoint_public_access": settings["endpointPublicAccess"],
            "public_access_cidrs": settings["publicAccessCidrs"],
        },
        version=settings["version"],
        enabled_cluster_log_types=settings["enabledClusterLogTypes"],
        tags=_tags(name, settings),
        encryption_config={"provider": {"key_arn": key}, "resources": ["secrets"]} if key else None,
        kubernetes_network_config=network,
        bootstrap_self_managed_addons=True if bootstrap is None else bootstrap,
        access_config={"authentication_mode": "API", "bootstrap_cluster_creator_admin_permissions": True},
        upgrade_policy=settings["upgradePolicy"],
        deletion_protection=settings["deletionProtection"],
        opts=pulumi.ResourceOptions(
            parent=parent,
            # Both are of the create call only.
            ignore_changes=[
                "accessConfig.bootstrapClusterCreatorAdminPermissions",
                "bootstrapSelfManagedAddons",
            ],
        ),
    )


def _outputs(
    cluster: aws.eks.Cluster, settings: dict[str, Any], roles: list[Any], role: Any
) -> dict[str, Any]:
    credentials = settings["providerCredentialOpts"]
    shared = of_cluster(cluster, credentials, with_profile=False)
    issuer = cluster.identities.apply(
        lambda found: found[0].oidcs[0].issuer if found and found[0].oidcs else ""
    )
    group = cluster.vpc_config.apply(lambda config: config.cluster_security_group_id)
    core = {
        "vpcId": settings["vpcId"],
        "subnetIds": _subnets(settings),
        "publicSubnetIds": settings["publicSubnetIds"],
        "privateSubnetIds": settings["privateSubnetIds"],
        "cluster": cluster,
        "endpoint": cluster.endpoint,
        "kubeconfig": shared,
        "instanceRoles": roles,
        "tags": settings["tags"],
        "nodeGroupOptions": {},
        "clusterIamRole": role,
        "autoModeNodeRoleName": "",
    }
    return {
        "core": {name: value for name, value in core.items() if value is not None},
        "eksCluster": cluster,
        "kubeconfig": shared,
        "kubeconfigJson": shared.apply(json.dumps),
        "instanceRoles": roles,
        "clusterSecurityGroupId": group,
        "nodeSecurityGroupId": group,
        "clusterIngressRuleId": "",
        "defaultNodeGroupAsgName": "",
        "fargateProfileId": "",
        "fargateProfileStatus": "",
        "oidcProviderArn": "",
        "oidcProviderUrl": issuer,
        "oidcIssuer": issuer.apply(lambda url: url.removeprefix("https://")),
        "autoModeNodeRoleName": "",
    }
