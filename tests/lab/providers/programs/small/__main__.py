"""What CASE says."""

from __future__ import annotations

import json
import os

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

case = os.environ["CASE"]
own = pulumi.ResourceOptions(import_=os.environ.get("IMPORT"))


def vpc() -> aws.ec2.Vpc:
    return aws.ec2.Vpc("vpc", cidr_block="10.52.0.0/16", tags={"Name": "small"}, opts=own)


if case == "vpc":
    vpc()
elif case == "slow":
    aws.ec2.NatGateway(
        "nat",
        subnet_id=aws.ec2.Subnet(
            "subnet", vpc_id=vpc().id, cidr_block="10.52.1.0/24", availability_zone_id="use1-az1"
        ).id,
        connectivity_type="private",
    )
elif case == "half-made":
    aws.ec2.SecurityGroup(
        "group",
        vpc_id=vpc().id,
        ingress=[
            {
                "protocol": "tcp",
                "from_port": 1,
                "to_port": 2,
                "cidr_blocks": ["10.0.0.0/8"],
            }
        ],
    )
elif case == "wrong":
    aws.ec2.Vpc("vpc", cidr_block="10.52.0.0/16", instance_tenancy="shared")
elif case == "names":
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
    path = os.environ.get("ROLE_PATH", "/")
    aws.iam.Role("mine", name="small-role", path=path, assume_role_policy=json.dumps(trust))
    aws.iam.Role("made-up", path=path, assume_role_policy=json.dumps(trust))
elif case == "secret":
    secret = aws.secretsmanager.Secret(
        "secret", recovery_window_in_days=0, description=pulumi.Output.secret("hush-hush")
    )
    version = aws.secretsmanager.SecretVersion(
        "secret", secret_id=secret.id, secret_string=os.environ.get("VALUE", "very-secret-indeed")
    )
    pulumi.export("value", version.secret_string)
elif case == "no-capacity":
    network = vpc()
    subnets = [
        aws.ec2.Subnet(
            f"subnet-{n}",
            vpc_id=network.id,
            cidr_block=f"10.52.{n * 16}.0/20",
            availability_zone_id=f"use1-az{n}",
        )
        for n in (1, 2)
    ]
    roles = {
        service: aws.iam.Role(
            service,
            assume_role_policy=json.dumps(
                {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Allow",
                            "Principal": {"Service": f"{service}.amazonaws.com"},
                            "Action": "sts:AssumeRole",
                        }
                    ],
                }
            ),
            managed_policy_arns=[f"arn:aws:iam::aws:policy/{policy}" for policy in policies],
        )
        for service, policies in {
            "eks": ["AmazonEKSClusterPolicy"],
            "ec2": [
                "AmazonEKSWorkerNodePolicy",
                "AmazonEKS_CNI_Policy",
                "AmazonEC2ContainerRegistryPullOnly",
            ],
        }.items()
    }
    cluster = aws.eks.Cluster(
        "small",
        role_arn=roles["eks"].arn,
        version="1.34",
        vpc_config={"subnet_ids": [subnet.id for subnet in subnets]},
        access_config={"authentication_mode": "API"},
    )
    aws.eks.NodeGroup(
        "p5",
        cluster_name=cluster.name,
        node_role_arn=roles["ec2"].arn,
        subnet_ids=[subnets[0].id],
        instance_types=["p5.48xlarge"],
        ami_type="AL2023_x86_64_NVIDIA",
        scaling_config={"min_size": 0, "desired_size": 1, "max_size": 1},
    )
elif case == "component":
    eks.Cluster(
        "small", subnet_ids=["subnet-1"], skip_default_node_group=True, fargate=True, proxy="http://x"
    )
