"""The network: private subnets for nodes and the control plane, small public ones for NAT gateways."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from cluster import policies
from cluster.settings.sections import NetworkSettings
from cluster.zones import control_plane_zones


class Network(pulumi.ComponentResource):
    """VPC, subnets by zone id, NAT, endpoints and flow logs."""

    vpc_id: pulumi.Output[str]
    private_subnet_ids: dict[str, pulumi.Output[str]]
    """By zone id."""
    control_plane_subnet_ids: list[pulumi.Output[str]]

    def __init__(
        self, name: str, settings: NetworkSettings, *, region: str, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("shardyard:cluster:Network", name, None, opts)
        self._name, self._settings, self._region = name, settings, region
        self._child = pulumi.ResourceOptions(parent=self)
        plan = settings.address_plan

        self.vpc = aws.ec2.Vpc(
            f"{name}-vpc",
            cidr_block=settings.cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,  # private endpoints and FSx are found by name
            tags={"Name": name},
            opts=self._child,
        )
        self.vpc_id = self.vpc.id
        # Closed, so that what is created without a security group reaches nothing.
        aws.ec2.DefaultSecurityGroup(
            f"{name}-default", vpc_id=self.vpc_id, tags=self._tag("default"), opts=self._child
        )
        self._flow_logs()

        public = self._public_subnets([str(block) for block in plan.public])
        gateways = self._nat(public)
        self.private_subnet_ids, route_tables = self._private_subnets(
            [str(block) for block in plan.private], gateways
        )
        self.control_plane_subnet_ids = [
            self.private_subnet_ids[z] for z in control_plane_zones(settings.zones)
        ]
        self._endpoints(route_tables)
        self.register_outputs({"vpc_id": self.vpc_id, "private_subnet_ids": self.private_subnet_ids})

    def _tag(self, what: str) -> dict[str, str]:
        return {"Name": f"{self._name}-{what}"}

    def _public_subnets(self, blocks: Sequence[str]) -> dict[str, aws.ec2.Subnet]:
        """One small public subnet for each zone, with a route to the internet. Only NAT gateways use it."""
        name = self._name
        internet = aws.ec2.InternetGateway(
            f"{name}-internet", vpc_id=self.vpc_id, tags=self._tag("internet"), opts=self._child
        )
        table = aws.ec2.RouteTable(
            f"{name}-public", vpc_id=self.vpc_id, tags=self._tag("public"), opts=self._child
        )
        self._internet_route = aws.ec2.Route(
            f"{name}-public-internet",
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=internet.id,
            opts=self._child,
        )
        subnets = {}
        for zone, block in zip(self._settings.zones, blocks, strict=True):
            subnets[zone] = subnet = aws.ec2.Subnet(
                f"{name}-public-{zone}",
                vpc_id=self.vpc_id,
                availability_zone_id=zone,
                cidr_block=block,
                map_public_ip_on_launch=False,
                tags=self._tag(f"public-{zone}"),
                opts=self._child,
            )
            aws.ec2.RouteTableAssociation(
                f"{name}-public-{zone}", route_table_id=table.id, subnet_id=subnet.id, opts=self._child
            )
        return subnets

    def _nat(self, public: dict[str, aws.ec2.Subnet]) -> dict[str, aws.ec2.NatGateway]:
        """The gateway of each zone: its own, or the first zone's for all."""
        zones = self._settings.zones
        own = zones if self._settings.nat_gateways == "per-zone" else zones[:1]
        gateways = {}
        for zone in own:
            address = aws.ec2.Eip(
                f"{self._name}-nat-{zone}", domain="vpc", tags=self._tag(f"nat-{zone}"), opts=self._child
            )
            gateways[zone] = aws.ec2.NatGateway(
                f"{self._name}-nat-{zone}",
                subnet_id=public[zone].id,
                allocation_id=address.id,
                tags=self._tag(f"nat-{zone}"),
                # Without the route it can't reach the internet, and EC2 marks it failed.
                opts=pulumi.ResourceOptions(parent=self, depends_on=[self._internet_route]),
            )
        return {zone: gateways.get(zone, gateways[own[0]]) for zone in zones}

    def _private_subnets(
        self, blocks: Sequence[str], gateways: dict[str, aws.ec2.NatGateway]
    ) -> tuple[dict[str, pulumi.Output[str]], list[pulumi.Output[str]]]:
        """One private subnet and one route table for each zone."""
        subnets, tables = {}, []
        for zone, block in zip(self._settings.zones, blocks, strict=True):
            label = f"{self._name}-private-{zone}"
            subnet = aws.ec2.Subnet(
                label,
                vpc_id=self.vpc_id,
                availability_zone_id=zone,
                cidr_block=block,
                map_public_ip_on_launch=False,
                tags={**self._tag(f"private-{zone}"), "kubernetes.io/role/internal-elb": "1"},
                opts=self._child,
            )
            table = aws.ec2.RouteTable(
                label, vpc_id=self.vpc_id, tags=self._tag(f"private-{zone}"), opts=self._child
            )
            association = aws.ec2.RouteTableAssociation(
                label, route_table_id=table.id, subnet_id=subnet.id, opts=self._child
            )
            route = aws.ec2.Route(
                f"{label}-nat",
                route_table_id=table.id,
                destination_cidr_block="0.0.0.0/0",
                nat_gateway_id=gateways[zone].id,
                opts=self._child,
            )
            # Dependents of the subnet wait for its route to the internet, and are destroyed before it.
            subnets[zone] = pulumi.Output.all(subnet.id, association.id, route.id).apply(lambda ids: ids[0])
            tables.append(table.id)
        return subnets, tables

    def _endpoints(self, route_tables: Sequence[pulumi.Output[str]]) -> None:
        """VPC endpoints of AWS's APIs: a gateway for S3, interfaces for the others."""
        name = self._name
        aws.ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=self.vpc_id,
            service_name=f"com.amazonaws.{self._region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=list(route_tables),
            tags=self._tag("s3"),
            opts=self._child,
        )
        if not self._settings.interface_endpoints:
            return
        group = aws.ec2.SecurityGroup(
            f"{name}-endpoints",
            vpc_id=self.vpc_id,
            description="HTTPS from inside the VPC to AWS APIs",
            tags=self._tag("endpoints"),
            opts=self._child,
        )
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-endpoints-https",
            security_group_id=group.id,
            cidr_ipv4=self._settings.cidr,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            opts=self._child,
        )
        for service in self._settings.interface_endpoints:
            aws.ec2.VpcEndpoint(
                f"{name}-{service}",
                vpc_id=self.vpc_id,
                service_name=f"com.amazonaws.{self._region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(self.private_subnet_ids.values()),
                security_group_ids=[group.id],
                tags=self._tag(service),
                opts=self._child,
            )

    def _flow_logs(self) -> None:
        """All traffic of the VPC to CloudWatch, with a role that can write to this one log group only."""
        name = self._name
        group = aws.cloudwatch.LogGroup(
            f"{name}-flow-logs",
            name=f"/shardyard/{name}/flow-logs",
            retention_in_days=self._settings.flow_log_retention_days,
            opts=self._child,
        )
        role = aws.iam.Role(
            f"{name}-flow-logs",
            assume_role_policy=policies.trust_service("vpc-flow-logs.amazonaws.com"),
            opts=self._child,
        )
        policy = aws.iam.RolePolicy(
            f"{name}-flow-logs",
            role=role.id,
            policy=policies.output(_write_logs, group=group.arn),
            opts=self._child,
        )
        aws.ec2.FlowLog(
            f"{name}-flow-logs",
            vpc_id=self.vpc_id,
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_destination=group.arn,
            iam_role_arn=role.arn,
            max_aggregation_interval=600,
            tags=self._tag("flow-logs"),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )


def _write_logs(group: str) -> list[policies.Statement]:
    actions = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
    return [policies.allow(actions, [group, f"{group}:*"])]
