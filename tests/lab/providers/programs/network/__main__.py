"""A VPC with a public and two private subnets. VERSION=2 is the program after an edit."""

from __future__ import annotations

import os

import pulumi
import pulumi_aws as aws

second = os.environ.get("VERSION") == "2"
owner = "somebody" if second else "nobody"
provider = aws.Provider(
    "aws", region="us-east-1", default_tags={"tags": {"project": "network", "owner": owner}}
)
opts = pulumi.ResourceOptions(provider=provider)

vpc = aws.ec2.Vpc(
    "vpc", cidr_block="10.50.0.0/16", enable_dns_hostnames=True, tags={"Name": "vpc"}, opts=opts
)
aws.ec2.DefaultSecurityGroup("default", vpc_id=vpc.id, opts=opts)
public = aws.ec2.Subnet(
    "public", vpc_id=vpc.id, cidr_block="10.50.0.0/24", availability_zone_id="use1-az1", opts=opts
)
private = [
    aws.ec2.Subnet(
        f"private-{number}",
        vpc_id=vpc.id,
        # An edit moves the second subnet: a subnet can't be changed, so it has to be replaced.
        cidr_block=f"10.50.{number + 10 if second and number == 2 else number}.0/24",
        availability_zone_id=f"use1-az{number}",
        map_public_ip_on_launch=False,
        tags={"kubernetes.io/role/internal-elb": "1"},
        opts=opts,
    )
    for number in (1, 2)
]
internet = aws.ec2.InternetGateway("internet", vpc_id=vpc.id, opts=opts)
table = aws.ec2.RouteTable("public", vpc_id=vpc.id, opts=opts)
out = aws.ec2.Route(
    "out", route_table_id=table.id, destination_cidr_block="0.0.0.0/0", gateway_id=internet.id, opts=opts
)
aws.ec2.RouteTableAssociation("public", route_table_id=table.id, subnet_id=public.id, opts=opts)
address = aws.ec2.Eip("nat", domain="vpc", opts=opts)
nat = aws.ec2.NatGateway(
    "nat",
    subnet_id=public.id,
    allocation_id=address.id,
    opts=pulumi.ResourceOptions(provider=provider, depends_on=[out]),
)
inner = aws.ec2.RouteTable("private", vpc_id=vpc.id, opts=opts)
aws.ec2.Route(
    "nat", route_table_id=inner.id, destination_cidr_block="0.0.0.0/0", nat_gateway_id=nat.id, opts=opts
)
for number, subnet in enumerate(private):
    aws.ec2.RouteTableAssociation(
        f"private-{number}", route_table_id=inner.id, subnet_id=subnet.id, opts=opts
    )

group = aws.ec2.SecurityGroup(
    "group",
    vpc_id=vpc.id,
    description="rules inside",
    ingress=[
        {"protocol": "tcp", "from_port": 443, "to_port": 443, "cidr_blocks": ["10.0.0.0/8"]},
        {"protocol": "-1", "from_port": 0, "to_port": 0, "self": True},
    ],
    egress=[{"protocol": "-1", "from_port": 0, "to_port": 0, "cidr_blocks": ["0.0.0.0/0"]}],
    opts=opts,
)
efa = aws.ec2.SecurityGroup("efa", vpc_id=vpc.id, description="rules outside", opts=opts)
for name, rule in (("in", aws.vpc.SecurityGroupIngressRule), ("out", aws.vpc.SecurityGroupEgressRule)):
    rule(
        f"efa-{name}",
        security_group_id=efa.id,
        referenced_security_group_id=efa.id,
        ip_protocol="-1",
        description="EFA" if second else None,
        opts=opts,
    )
aws.ec2.VpcEndpoint(
    "s3",
    vpc_id=vpc.id,
    service_name="com.amazonaws.us-east-1.s3",
    vpc_endpoint_type="Gateway",
    route_table_ids=[table.id, inner.id] if second else [inner.id],
    opts=opts,
)
aws.ec2.VpcEndpoint(
    "ecr",
    vpc_id=vpc.id,
    service_name="com.amazonaws.us-east-1.ecr.api",
    vpc_endpoint_type="Interface",
    subnet_ids=[private[0].id],
    security_group_ids=[group.id],
    private_dns_enabled=True,
    opts=opts,
)
logs = aws.cloudwatch.LogGroup("flow", name="/network/flow", retention_in_days=14 if second else 7, opts=opts)
role = aws.iam.Role(
    "flow",
    assume_role_policy=aws.iam.get_policy_document_output(
        statements=[
            {
                "actions": ["sts:AssumeRole"],
                "principals": [{"type": "Service", "identifiers": ["vpc-flow-logs.amazonaws.com"]}],
            }
        ],
        opts=pulumi.InvokeOutputOptions(provider=provider),
    ).json,
    opts=opts,
)
aws.ec2.FlowLog(
    "flow",
    vpc_id=vpc.id,
    traffic_type="ALL",
    log_destination_type="cloud-watch-logs",
    log_destination=logs.arn,
    iam_role_arn=role.arn,
    max_aggregation_interval=600,
    opts=opts,
)

where = pulumi.InvokeOutputOptions(provider=provider)
zones = aws.get_availability_zones_output(filters=[{"name": "zone-id", "values": ["use1-az1"]}], opts=where)
pulumi.export("vpc", vpc.id)
pulumi.export("zone", zones.names[0])
pulumi.export("account", aws.get_caller_identity_output(opts=where).account_id)
pulumi.export("region", aws.get_region_output(opts=where).region)
pulumi.export("partition", aws.get_partition_output(opts=where).partition)
