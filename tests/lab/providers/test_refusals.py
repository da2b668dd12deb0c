"""What terraform-provider-aws refuses before anything is made is refused on the local stack, in its own words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab.cli import environment
from tests.lab.providers import plugin
from tests.lab.providers.plugin import Plugin
from tests.lab.providers.support import Cloud

pytestmark = pytest.mark.lab

TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
)
ROLE = "arn:aws:iam::123456789012:role/r"
SIZES = {"desiredSize": 1, "maxSize": 1, "minSize": 1}
VPC, SUBNET, RULE = (
    "ec2/vpc:Vpc",
    "ec2/subnet:Subnet",
    "vpc/securityGroupIngressRule:SecurityGroupIngressRule",
)
GROUP: dict[str, Any] = {
    "clusterName": "c",
    "nodeRoleArn": ROLE,
    "subnetIds": ["subnet-1"],
    "scalingConfig": SIZES,
}
CLUSTER = {"name": "ok", "roleArn": ROLE, "vpcConfig": {"subnetIds": ["subnet-1", "subnet-2"]}}
LUSTRE = {"subnetIds": "subnet-1", "storageCapacity": 1200, "deploymentType": "PERSISTENT_2"}
FLOW = {"trafficType": "ALL", "vpcId": "vpc-1"}
RESERVATION = {
    "availabilityZone": "us-east-1a",
    "instanceType": "p5.48xlarge",
    "instancePlatform": "Linux/UNIX",
    "instanceCount": 1,
}

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (VPC, {"cidrBlock": "10.0.0.0/8"}, "between 16 and 28"),
    (VPC, {"cidrBlock": "10.20.3.4/16"}, "expected 10.20.0.0/16"),
    (VPC, {"cidrBlock": "10.20.0.0/16", "instanceTenancy": "shared"}, "instance_tenancy to be one of"),
    (
        SUBNET,
        {"vpcId": "vpc-1", "availabilityZone": "us-east-1a", "availabilityZoneId": "use1-az1"},
        "conflicts with availability_zone_id",
    ),
    ("ec2/eip:Eip", {"domain": "cloud"}, "expected domain to be one of"),
    ("iam/role:Role", {"assumeRolePolicy": "{not json"}, "invalid JSON policy"),
    ("iam/role:Role", {"assumeRolePolicy": TRUST, "maxSessionDuration": 60}, "max_session_duration"),
    ("iam/role:Role", {"assumeRolePolicy": TRUST, "name": "x" * 65}, "length of name"),
    ("iam/role:Role", {"assumeRolePolicy": TRUST, "namePrefix": "y" * 39}, "length of name_prefix"),
    (
        "iam/rolePolicyAttachment:RolePolicyAttachment",
        {"role": "r", "policyArn": "AdministratorAccess"},
        "invalid ARN",
    ),
    ("s3/bucket:Bucket", {"bucketPrefix": "z" * 38}, "bucket_prefix"),
    (
        "ec2/capacityReservation:CapacityReservation",
        {**RESERVATION, "instancePlatform": "linux"},
        "instance_platform",
    ),
    ("ec2/capacityReservation:CapacityReservation", {**RESERVATION, "endDate": "tomorrow"}, "RFC3339"),
    ("ec2/launchTemplate:LaunchTemplate", {"name": "a b"}, "alphanumeric"),
    (
        "ec2/launchTemplate:LaunchTemplate",
        {"metadataOptions": {"httpTokens": "maybe", "httpPutResponseHopLimit": 65}},
        "http_put_response_hop_limit",
    ),
    ("eks/nodeGroup:NodeGroup", {**GROUP, "scalingConfig": {**SIZES, "minSize": -1}}, "min_size"),
    ("eks/nodeGroup:NodeGroup", {**GROUP, "scalingConfig": {**SIZES, "maxSize": 0}}, "max_size"),
    ("eks/nodeGroup:NodeGroup", {**GROUP, "nodeGroupName": "n" * 64}, "node_group_name"),
    (
        "eks/nodeGroup:NodeGroup",
        {**GROUP, "nodeGroupName": "a", "nodeGroupNamePrefix": "b"},
        "conflicts with node_group_name_prefix",
    ),
    ("eks/nodeGroup:NodeGroup", {**GROUP, "taints": [{"key": "k", "effect": "NoSchedule"}]}, "NO_SCHEDULE"),
    (
        "eks/nodeGroup:NodeGroup",
        {**GROUP, "launchTemplate": {"id": "lt-1", "name": "x", "version": "1"}},
        "launch_template",
    ),
    (
        "eks/nodeGroup:NodeGroup",
        {**GROUP, "updateConfig": {"maxUnavailable": 1, "maxUnavailablePercentage": 10}},
        "max_unavailable_percentage",
    ),
    ("eks/cluster:Cluster", {**CLUSTER, "name": "-bad-"}, "doesn't comply with restrictions"),
    (
        "eks/cluster:Cluster",
        {**CLUSTER, "kubernetesNetworkConfig": {"serviceIpv4Cidr": "8.8.0.0/16"}},
        "service_ipv4_cidr",
    ),
    ("eks/accessEntry:AccessEntry", {"clusterName": "c", "principalArn": "notarn"}, "invalid ARN"),
    (
        "eks/accessPolicyAssociation:AccessPolicyAssociation",
        {"clusterName": "c", "principalArn": ROLE, "policyArn": "Admin", "accessScope": {"type": "cluster"}},
        "invalid ARN",
    ),
    ("cloudwatch/logGroup:LogGroup", {"retentionInDays": 4}, "retention_in_days"),
    ("cloudwatch/logGroup:LogGroup", {"name": "a b"}, "valid log group name"),
    ("fsx/lustreFileSystem:LustreFileSystem", {**LUSTRE, "storageCapacity": 100}, "storage_capacity"),
    (
        "fsx/lustreFileSystem:LustreFileSystem",
        {**LUSTRE, "perUnitStorageThroughput": 77},
        "per_unit_storage_throughput",
    ),
    (
        "fsx/lustreFileSystem:LustreFileSystem",
        {**LUSTRE, "automaticBackupRetentionDays": 400},
        "automatic_backup_retention_days",
    ),
    (
        "fsx/lustreFileSystem:LustreFileSystem",
        {**LUSTRE, "weeklyMaintenanceStartTime": "monday"},
        "weekly_maintenance_start_time",
    ),
    (
        "fsx/dataRepositoryAssociation:DataRepositoryAssociation",
        {"fileSystemId": "fs-0123456789a", "dataRepositoryPath": "bucket/x", "fileSystemPath": "/data"},
        "begin with s3://",
    ),
    ("ecr/lifecyclePolicy:LifecyclePolicy", {"repository": "r", "policy": "{bad"}, "invalid JSON"),
    ("kms/key:Key", {"deletionWindowInDays": 3}, "deletion_window_in_days"),
    ("kms/alias:Alias", {"name": "noprefix", "targetKeyId": "k"}, "must begin with 'alias/'"),
    (
        RULE,
        {"securityGroupId": "sg-1", "ipProtocol": "tcp", "cidrIpv4": "0.0.0.0/0", "cidrIpv6": "::/0"},
        "Exactly one of these attributes must be configured",
    ),
    (
        RULE,
        {"securityGroupId": "sg-1", "ipProtocol": "tcp", "fromPort": 1, "toPort": 2},
        "Exactly one of these attributes must be configured",
    ),
    (
        RULE,
        {
            "securityGroupId": "sg-1",
            "ipProtocol": "tcp",
            "fromPort": 70000,
            "toPort": 2,
            "cidrIpv4": "1.2.3.0/24",
        },
        "between -1 and 65535",
    ),
    (
        RULE,
        {"securityGroupId": "sg-1", "ipProtocol": "tcp", "fromPort": 1, "toPort": 2, "cidrIpv4": "1.2.3.4"},
        "valid IPv4 CIDR",
    ),
    ("ec2/securityGroup:SecurityGroup", {"name": "sg-abc", "vpcId": "vpc-1"}, "cannot begin with sg-"),
    (
        "ec2/vpcEndpoint:VpcEndpoint",
        {"vpcId": "vpc-1", "serviceName": "s", "vpcEndpointType": "Portal"},
        "vpc_endpoint_type",
    ),
    (
        "ec2/route:Route",
        {"routeTableId": "rtb-1", "destinationCidrBlock": "0.0.0.0/0", "gatewayId": "i", "natGatewayId": "n"},
        "only one of",
    ),
    ("ec2/route:Route", {"routeTableId": "rtb-1", "destinationCidrBlock": "0.0.0.0/0"}, "one of"),
    ("ec2/flowLog:FlowLog", {**FLOW, "trafficType": "SOME"}, "traffic_type"),
    ("ec2/flowLog:FlowLog", {**FLOW, "maxAggregationInterval": 5}, "max_aggregation_interval"),
    ("ec2/placementGroup:PlacementGroup", {"strategy": "near"}, "expected strategy to be one of"),
    (
        "s3/bucketVersioning:BucketVersioning",
        {"bucket": "b", "versioningConfiguration": {"status": "On"}},
        "versioning_configuration.0.status",
    ),
    ("s3/bucketPolicy:BucketPolicy", {"bucket": "b", "policy": "nope"}, "invalid JSON"),
]

LEFT_TO_AWS: list[tuple[str, dict[str, Any]]] = [
    ("s3/bucket:Bucket", {"bucket": "Upper_Case"}),
    ("ecr/repository:Repository", {"name": "Upper"}),
    ("eks/nodeGroup:NodeGroup", {**GROUP, "nodeRoleArn": "r"}),
    ("eks/addon:Addon", {"clusterName": "c", "addonName": "vpc-cni", "configurationValues": "{x"}),
    ("ec2/natGateway:NatGateway", {"subnetId": "subnet-1"}),
    ("ec2/flowLog:FlowLog", FLOW),
]
"""What the provider lets through, so that the emulator has to refuse it (tests/lab/aws)."""


@pytest.fixture(scope="module")
def aws(clouds: Any) -> Iterator[Plugin]:
    """The plugin, configured as the program configures it, in front of an emulator."""
    cloud: Cloud = clouds.clean()
    with plugin.running(environment.variables(cloud.lab)) as found:
        inputs = {"region": "us-east-1", "allowedAccountIds": json.dumps(["123456789012"])}
        assert found.check_config(inputs) == []
        found.configure(inputs)
        yield found


@pytest.mark.parametrize(
    ("token", "inputs", "reason"), REFUSED, ids=[f"{case[0].partition(':')[2]}-{case[2]}" for case in REFUSED]
)
def test_refused(aws: Plugin, token: str, inputs: dict[str, Any], reason: str) -> None:
    _, problems = aws.check(f"aws:{token}", inputs)
    assert any(reason in problem for problem in problems), problems


@pytest.mark.parametrize(("token", "inputs"), LEFT_TO_AWS, ids=[case[0] for case in LEFT_TO_AWS])
def test_left_to_aws(aws: Plugin, token: str, inputs: dict[str, Any]) -> None:
    assert aws.check(f"aws:{token}", inputs)[1] == []


def test_names_are_made_up_as_pulumi_aws_does(aws: Plugin) -> None:
    for token, name, inputs in (
        ("iam/role:Role", "name", {"assumeRolePolicy": TRUST}),
        ("s3/bucket:Bucket", "bucket", {}),
        ("eks/nodeGroup:NodeGroup", "nodeGroupName", GROUP),
    ):
        checked, problems = aws.check(f"aws:{token}", inputs)
        assert not problems
        assert checked[name].startswith("name-") and len(checked[name]) == len("name-") + 7


P5 = {**GROUP, "instanceTypes": ["p5.48xlarge"]}
REPLACING: list[tuple[str, dict[str, Any], dict[str, Any], bool]] = [
    ("eks/nodeGroup:NodeGroup", P5, {"launchTemplate": {"id": "lt-2", "version": "1"}}, True),
    ("eks/nodeGroup:NodeGroup", P5, {"launchTemplate": {"id": "lt-1", "version": "2"}}, False),
    ("eks/nodeGroup:NodeGroup", P5, {"scalingConfig": {**SIZES, "maxSize": 2}}, False),
    ("eks/nodeGroup:NodeGroup", P5, {"subnetIds": ["subnet-2"]}, True),
    (
        "ec2/routeTableAssociation:RouteTableAssociation",
        {"routeTableId": "rtb-1", "subnetId": "subnet-1"},
        {"routeTableId": "rtb-2"},
        False,
    ),
    (
        "ec2/routeTableAssociation:RouteTableAssociation",
        {"routeTableId": "rtb-1", "subnetId": "subnet-1"},
        {"subnetId": "subnet-2"},
        True,
    ),
    (SUBNET, {"vpcId": "vpc-1", "cidrBlock": "10.0.0.0/24"}, {"cidrBlock": "10.0.1.0/24"}, True),
]


@pytest.mark.parametrize(("token", "inputs", "change", "replaced"), REPLACING)
def test_what_a_change_replaces(
    aws: Plugin, token: str, inputs: dict[str, Any], change: dict[str, Any], replaced: bool
) -> None:
    token = f"aws:{token}"
    if "launchTemplate" in change:
        inputs = {**inputs, "launchTemplate": {"id": "lt-1", "version": "1"}}
    old, problems = aws.check(token, inputs)
    assert not problems
    new, _ = aws.check(token, {**old, **change})
    answer = aws.diff(token, old, {**aws.create_preview(token, old), **old}, new)
    assert answer.changes == answer.DIFF_SOME
    assert bool(answer.replaces) == replaced, list(answer.replaces)
