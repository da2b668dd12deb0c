"""The sweep names everything that somebody made, and nothing that AWS makes by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from cluster import retention
from lab.aws import seed
from tests.lab.aws.support import REGION, Emulator, Network

README = Path(__file__).parents[3] / "README.md"
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


def test_what_is_kept_on_purpose_is_marked_by_its_tag(emulator: Emulator, network: Network) -> None:
    mark = network.vpc[-6:]
    s3, ecr = emulator.client("s3"), emulator.client("ecr")
    ((key, value),) = retention.TAG.items()
    for name in (f"kept-{mark}", f"leaked-{mark}"):
        s3.create_bucket(Bucket=name)
        ecr.create_repository(repositoryName=name)
    s3.put_bucket_tagging(Bucket=f"kept-{mark}", Tagging={"TagSet": [{"Key": key, "Value": value}]})
    s3.put_bucket_tagging(Bucket=f"leaked-{mark}", Tagging={"TagSet": [{"Key": key, "Value": "delete"}]})
    arn = ecr.describe_repositories(repositoryNames=[f"kept-{mark}"])["repositories"][0]["repositoryArn"]
    ecr.tag_resource(resourceArn=arn, tags=[{"Key": key, "Value": value}])
    found = [one for one in emulator.console("resources") if one["name"].endswith(mark)]
    assert {(one["type"], one["name"]) for one in found if one["kept"]} == {
        ("s3:bucket", f"kept-{mark}"),
        ("ecr:repository", f"kept-{mark}"),
    }
    assert {one["name"] for one in found if not one["kept"]} >= {f"leaked-{mark}"}


def readme_commands() -> list[str]:
    """README's commands about what was kept: to find it, to delete a bucket, to delete a repository."""
    (block,) = re.findall(r"```sh\n(aws resourcegroupstaggingapi .*?)```", README.read_text(), re.DOTALL)
    return [line for line in block.replace("\\\n", "").splitlines() if line.strip()]


def test_the_readme_s_commands_find_and_delete_what_was_kept(emulator: Emulator, network: Network) -> None:
    stack, mark = "shardyard-p5", network.vpc[-6:]
    bucket, repository = f"{stack}-data-{mark}", f"{stack}-trainer-{mark}"
    tags = [
        {"Key": "shardyard:stack", "Value": stack},
        *({"Key": k, "Value": v} for k, v in retention.TAG.items()),
    ]
    s3, ecr = emulator.client("s3"), emulator.client("ecr")
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    for text in (b"one", b"two"):
        s3.put_object(Bucket=bucket, Key="step-1", Body=text)
    s3.delete_object(Bucket=bucket, Key="step-1")
    ecr.create_repository(repositoryName=repository, tags=tags)
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "AWS_ENDPOINT_URL": emulator.endpoint,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": seed.ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": seed.SECRET_KEY,
    }

    def shell(command: str) -> str:
        done = subprocess.run(
            ["sh", "-c", command], env=variables, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    find, delete_bucket, delete_repository = readme_commands()
    named = {arn.rpartition(":")[2] for arn in shell(find).split()}
    assert bucket in named, "AWS names repositories here as well; moto's tagging API knows none"
    shell(delete_bucket.replace("BUCKET", bucket))
    shell(delete_repository.replace("REPOSITORY", repository))
    assert not {one["name"] for one in emulator.console("resources")} & {bucket, repository}


def test_keys_of_aws_own_do_not_count(emulator: Emulator) -> None:
    before = types(emulator)
    emulator.client("kms").describe_key(KeyId="alias/aws/ebs")
    emulator.client("kms").list_aliases()
    assert types(emulator) == before
