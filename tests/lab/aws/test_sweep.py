"""The sweep names everything that somebody made, and nothing that AWS makes by itself."""

from __future__ import annotations

import json
from typing import Any

from tests.lab.aws.support import REGION, Emulator, Network

TRUST = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}


def types(emulator: Emulator) -> set[tuple[str, str]]:
    return {(one["type"], one["id"]) for one in emulator.console("resources")}


def test_one_of_each_type_is_found(emulator: Emulator, ec2: Any, network: Network) -> None:
    before = types(emulator)
    mark, client = network.vpc[-6:], emulator.client
    document = json.dumps({"Version": "2012-10-17", "Statement": [TRUST]})
    allow = json.dumps(
        {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    )
    client("iam").create_role(RoleName=mark, AssumeRolePolicyDocument=document)
    client("iam").create_policy(PolicyName=mark, PolicyDocument=allow)
    client("iam").create_instance_profile(InstanceProfileName=mark)
    client("iam").create_user(UserName=mark)
    client("iam").create_open_id_connect_provider(
        Url=f"https://{mark}.example.com", ThumbprintList=["a" * 40]
    )
    key = client("kms").create_key()["KeyMetadata"]["KeyId"]
    client("kms").create_alias(AliasName=f"alias/{mark}", TargetKeyId=key)
    client("s3").create_bucket(Bucket=f"bucket-{mark}")
    client("ecr").create_repository(repositoryName=mark)
    client("logs").create_log_group(logGroupName=mark)
    client("cloudwatch").put_metric_alarm(
        AlarmName=mark,
        MetricName="m",
        Namespace="n",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )
    client("sns").create_topic(Name=mark)
    client("sqs").create_queue(QueueName=mark)
    client("secretsmanager").create_secret(Name=mark, SecretString="x")
    client("resource-groups").create_group(
        Name=mark, Configuration=[{"Type": "AWS::EC2::CapacityReservationPool", "Parameters": []}]
    )
    client("budgets").create_budget(
        AccountId="123456789012", Budget={"BudgetName": mark, "TimeUnit": "MONTHLY", "BudgetType": "COST"}
    )
    ec2.create_key_pair(KeyName=mark)
    ec2.create_placement_group(GroupName=mark, Strategy="cluster")
    ec2.create_capacity_reservation(
        InstanceType="p5.48xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=f"{REGION}a",
        InstanceCount=1,
    )
    ec2.create_launch_template(LaunchTemplateName=mark, LaunchTemplateData={"InstanceType": "m5.large"})
    ec2.allocate_address(Domain="vpc")
    ec2.create_route_table(VpcId=network.vpc)
    ec2.create_network_acl(VpcId=network.vpc)
    ec2.create_internet_gateway()
    ec2.run_instances(InstanceType="m5.large", SubnetId=network.subnets[0], MinCount=1, MaxCount=1)
    ec2.create_flow_logs(
        ResourceIds=[network.vpc], ResourceType="VPC", TrafficType="ALL", LogGroupName=mark,
        DeliverLogsPermissionArn=f"arn:aws:iam::123456789012:role/{mark}",
    )  # fmt: skip
    found = {kind for kind, _ in types(emulator) - before}
    assert found == {
        "budgets:budget",
        "cloudwatch:alarm",
        "ec2:capacity-reservation",
        "ec2:elastic-ip",
        "ec2:flow-log",
        "ec2:instance",
        "ec2:internet-gateway",
        "ec2:key-pair",
        "ec2:launch-template",
        "ec2:network-acl",
        "ec2:network-interface",
        "ec2:placement-group",
        "ec2:route-table",
        "ec2:volume",
        "ecr:repository",
        "iam:instance-profile",
        "iam:oidc-provider",
        "iam:policy",
        "iam:role",
        "iam:user",
        "kms:alias",
        "kms:key",
        "logs:group",
        "resource-groups:group",
        "s3:bucket",
        "secretsmanager:secret",
        "sns:topic",
        "sqs:queue",
    }


def test_what_is_on_its_way_out_does_not_count(emulator: Emulator, ec2: Any, network: Network) -> None:
    key = emulator.client("kms").create_key()["KeyMetadata"]["KeyId"]
    reservation = ec2.create_capacity_reservation(
        InstanceType="p5.48xlarge",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone=f"{REGION}a",
        InstanceCount=1,
    )["CapacityReservation"]["CapacityReservationId"]
    secret = emulator.client("secretsmanager").create_secret(Name=f"short-{network.vpc}")["ARN"]
    instance = ec2.run_instances(InstanceType="m5.large", SubnetId=network.subnets[0], MinCount=1, MaxCount=1)
    machine = instance["Instances"][0]["InstanceId"]
    made = {key, reservation, secret, machine}
    assert made <= {identity for _, identity in types(emulator)}
    emulator.client("kms").schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
    ec2.cancel_capacity_reservation(CapacityReservationId=reservation)
    emulator.client("secretsmanager").delete_secret(SecretId=secret, RecoveryWindowInDays=7)
    ec2.terminate_instances(InstanceIds=[machine])
    assert not made & {identity for _, identity in types(emulator)}


def test_keys_of_aws_own_do_not_count(emulator: Emulator) -> None:
    before = types(emulator)
    emulator.client("kms").describe_key(KeyId="alias/aws/ebs")
    emulator.client("kms").list_aliases()
    assert types(emulator) == before
