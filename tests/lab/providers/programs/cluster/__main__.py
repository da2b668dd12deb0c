"""A cluster, its add-ons, a system pool, a p5 pool on reserved capacity, and access. VERSION=2 is an edit."""

from __future__ import annotations

import base64
import json
import os

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

second = os.environ.get("VERSION") == "2"
USER_DATA = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {"kubelet": {"config": {"maxPods": 50}}}}
--//--
"""
provider = aws.Provider("aws", region="us-east-1", default_tags={"tags": {"project": "cluster"}})
opts = pulumi.ResourceOptions(provider=provider)
component = pulumi.ResourceOptions(providers=[provider])


def trust(service: str, *actions: str) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": list(actions) or "sts:AssumeRole",
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


vpc = aws.ec2.Vpc("vpc", cidr_block="10.51.0.0/16", enable_dns_hostnames=True, opts=opts)
subnets = [
    aws.ec2.Subnet(
        f"subnet-{number}",
        vpc_id=vpc.id,
        cidr_block=f"10.51.{number * 16}.0/20",
        availability_zone_id=f"use1-az{number}",
        opts=opts,
    )
    for number in (1, 2)
]
key = aws.kms.Key("secrets", enable_key_rotation=True, deletion_window_in_days=7, opts=opts)
# EKS would make it itself, and leave it behind.
logs = aws.cloudwatch.LogGroup("logs", name="/aws/eks/training/cluster", retention_in_days=7, opts=opts)
cluster = eks.Cluster(
    "training",
    name="training",
    version="1.34",
    vpc_id=vpc.id,
    subnet_ids=[subnet.id for subnet in subnets],
    authentication_mode=eks.AuthenticationMode.API,
    skip_default_node_group=True,
    skip_default_security_groups=True,
    create_instance_role=False,
    use_default_vpc_cni=True,
    bootstrap_self_managed_addons=False,
    kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(enabled=True, version="v1.34.6-eksbuild.21"),
    coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
    create_oidc_provider=False,
    encryption_config_key_arn=key.arn,
    enabled_cluster_log_types=["audit"] if second else ["api", "audit"],
    kubernetes_service_ip_address_range="172.20.0.0/16",
    endpoint_private_access=True,
    endpoint_public_access=True,
    public_access_cidrs=["127.0.0.0/8"],
    deletion_protection=False,
    cluster_tags={"Name": "training"},
    opts=pulumi.ResourceOptions(providers=[provider], depends_on=[logs]),
)
cni = eks.Addon(
    "cni",
    cluster=cluster,
    addon_name="vpc-cni",
    addon_version="v1.22.4-eksbuild.3",
    configuration_values={"env": {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1"}},
    resolve_conflicts_on_create="OVERWRITE",
    resolve_conflicts_on_update="OVERWRITE",
    preserve=False,
    opts=component,
)

node_role = aws.iam.Role("node", assume_role_policy=trust("ec2.amazonaws.com"), opts=opts)
attached = [
    aws.iam.RolePolicyAttachment(
        name, role=node_role.name, policy_arn=f"arn:aws:iam::aws:policy/{name}", opts=opts
    )
    for name in ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly")
]
disk = [
    {
        "device_name": "/dev/xvda",
        "ebs": {"volume_type": "gp3", "volume_size": 200 if second else 100, "encrypted": "true"},
    }
]
template = aws.ec2.LaunchTemplate(
    "system",
    name_prefix="system-",
    update_default_version=True,
    block_device_mappings=disk,
    metadata_options={
        "http_endpoint": "enabled",
        "http_tokens": "required",
        "http_put_response_hop_limit": 1,
    },
    tag_specifications=[{"resource_type": "instance", "tags": {"Name": "system"}}],
    opts=opts,
)
system = eks.ManagedNodeGroup(
    "system",
    cluster=cluster,
    node_group_name_prefix="system-",
    node_role=node_role,
    subnet_ids=[subnet.id for subnet in subnets],
    ami_type="AL2023_x86_64_STANDARD",
    version="1.34",
    instance_types=["m7i.xlarge"],
    launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
        id=template.id, version=template.latest_version.apply(str)
    ),
    scaling_config=aws.eks.NodeGroupScalingConfigArgs(min_size=1, desired_size=1, max_size=3),
    ignore_scaling_changes=True,
    labels={"example.com/pool": "system"},
    opts=pulumi.ResourceOptions(providers=[provider], depends_on=[cni, *attached]),
)

reservation = aws.ec2.CapacityReservation(
    "p5",
    instance_type="p5.48xlarge",
    instance_platform="Linux/UNIX",
    availability_zone=subnets[0].availability_zone,
    instance_count=3 if second else 2,
    instance_match_criteria="targeted",
    opts=opts,
)
fast = aws.ec2.LaunchTemplate(
    "p5",
    name_prefix="p5-",
    instance_type="p5.48xlarge",
    capacity_reservation_specification={
        "capacity_reservation_preference": "capacity-reservations-only",
        "capacity_reservation_target": {"capacity_reservation_id": reservation.id},
    },
    network_interfaces=[
        {
            "network_card_index": card,
            "device_index": 0 if card == 0 else 1,
            "interface_type": "interface" if card == 0 else "efa-only",
            "security_groups": [cluster.eks_cluster.vpc_config.cluster_security_group_id],
            "delete_on_termination": "true",
        }
        for card in range(3)
    ],
    user_data=base64.b64encode(USER_DATA.encode()).decode(),
    opts=opts,
)
taint = aws.eks.NodeGroupTaintArgs(key="nvidia.com/gpu", value="present", effect="NO_SCHEDULE")
p5 = aws.eks.NodeGroup(
    "p5",
    cluster_name=cluster.eks_cluster.name,
    node_group_name_prefix="p5-",
    node_role_arn=node_role.arn,
    subnet_ids=[subnets[0].id],
    ami_type="AL2023_x86_64_NVIDIA",
    version="1.34",
    capacity_type="ON_DEMAND",
    launch_template=aws.eks.NodeGroupLaunchTemplateArgs(id=fast.id, version=fast.latest_version.apply(str)),
    scaling_config=aws.eks.NodeGroupScalingConfigArgs(
        min_size=0, desired_size=2, max_size=3 if second else 2
    ),
    update_config=aws.eks.NodeGroupUpdateConfigArgs(max_unavailable=1),
    labels={"example.com/pool": "p5", **({"example.com/new": "yes"} if second else {})},
    taints=[taint],
    opts=pulumi.ResourceOptions(
        provider=provider,
        delete_before_replace=True,
        ignore_changes=["scalingConfig.desiredSize"],
        depends_on=[cni],
    ),
)

trainer = aws.iam.Role(
    "trainer",
    assume_role_policy=trust("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession"),
    opts=opts,
)
entry = aws.eks.AccessEntry(
    "trainer",
    cluster_name=cluster.eks_cluster.name,
    principal_arn=trainer.arn,
    kubernetes_groups=["trainers", "viewers"] if second else ["trainers"],
    opts=opts,
)
aws.eks.AccessPolicyAssociation(
    "trainer",
    cluster_name=cluster.eks_cluster.name,
    principal_arn=trainer.arn,
    policy_arn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy",
    access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
    opts=pulumi.ResourceOptions(provider=provider, depends_on=[entry]),
)
aws.eks.PodIdentityAssociation(
    "trainer",
    cluster_name=cluster.eks_cluster.name,
    namespace="training",
    service_account="trainer",
    role_arn=trainer.arn,
    opts=opts,
)

pulumi.export("kubeconfig", cluster.kubeconfig_json)
pulumi.export("group", cluster.eks_cluster.vpc_config.cluster_security_group_id)
pulumi.export("issuer", cluster.oidc_issuer)
