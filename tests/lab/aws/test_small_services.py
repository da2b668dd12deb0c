"""What moto leaves out of the answers of services that have no file of tests of their own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.lab.aws.support import REGION, Emulator, refused

ACCOUNT = "123456789012"


def test_a_budgets_tags_are_kept_and_changed(emulator: Emulator) -> None:
    client = emulator.client("budgets")
    budget = {"BudgetName": "tagged", "BudgetType": "COST", "TimeUnit": "MONTHLY"}
    tag = {"Key": "team", "Value": "research"}
    client.create_budget(AccountId=ACCOUNT, Budget=budget, ResourceTags=[tag])
    arn = f"arn:aws:budgets::{ACCOUNT}:budget/tagged"
    assert client.list_tags_for_resource(ResourceARN=arn)["ResourceTags"] == [tag]
    client.tag_resource(ResourceARN=arn, ResourceTags=[{"Key": "b", "Value": "c"}])
    client.untag_resource(ResourceARN=arn, ResourceTagKeys=["team"])
    assert client.list_tags_for_resource(ResourceARN=arn)["ResourceTags"] == [{"Key": "b", "Value": "c"}]
    assert refused(client.list_tags_for_resource, ResourceARN=arn + "2") == "NotFoundException"


def test_a_keys_rotation_has_a_period(emulator: Emulator) -> None:
    kms = emulator.client("kms")
    key = kms.create_key()["KeyMetadata"]["KeyId"]
    assert not kms.get_key_rotation_status(KeyId=key)["KeyRotationEnabled"]
    assert refused(kms.enable_key_rotation, KeyId=key, RotationPeriodInDays=2561) == "ValidationException"
    for given, days in (({}, 365), ({"RotationPeriodInDays": 90}, 90)):
        kms.enable_key_rotation(KeyId=key, **given)
        status = kms.get_key_rotation_status(KeyId=key)
        assert (status["KeyRotationEnabled"], status["RotationPeriodInDays"]) == (True, days)
        assert abs(status["NextRotationDate"] - datetime.now(UTC) - timedelta(days=days)) < timedelta(
            minutes=5
        )
    kms.disable_key_rotation(KeyId=key)
    assert "RotationPeriodInDays" not in kms.get_key_rotation_status(KeyId=key)
    kms.schedule_key_deletion(KeyId=key, PendingWindowInDays=7)
    assert refused(kms.enable_key_rotation, KeyId=key) == "KMSInvalidStateException"


def test_a_log_group_has_a_class_and_one_of_the_retentions(emulator: Emulator) -> None:
    logs = emulator.client("logs")
    for name, given, kind in (
        ("plain", {}, "STANDARD"),
        ("rare", {"logGroupClass": "INFREQUENT_ACCESS"}, "INFREQUENT_ACCESS"),
    ):
        logs.create_log_group(logGroupName=name, **given)
        [found] = logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        assert found["logGroupClass"] == kind
    logs.put_retention_policy(logGroupName="plain", retentionInDays=30)
    code = refused(logs.put_retention_policy, logGroupName="plain", retentionInDays=4)
    assert code == "InvalidParameterException"


def test_an_elastic_ip_says_where_it_is_announced(ec2: Any) -> None:
    allocation = ec2.allocate_address(Domain="vpc")["AllocationId"]
    [found] = ec2.describe_addresses(AllocationIds=[allocation])["Addresses"]
    assert (found["NetworkBorderGroup"], found["PublicIpv4Pool"]) == (REGION, "amazon")


@pytest.mark.parametrize(
    "given",
    [{"repositoryName": "Upper"}, {"repositoryName": "a//b"}, {"repositoryName": "-a"}],
)
def test_wrong_repository_names_are_refused(emulator: Emulator, given: dict[str, str]) -> None:
    assert refused(emulator.client("ecr").create_repository, **given) == "InvalidParameterException"


def test_a_broken_lifecycle_policy_is_refused(emulator: Emulator) -> None:
    ecr = emulator.client("ecr")
    ecr.create_repository(repositoryName="policies")
    policy = {"repositoryName": "policies", "lifecyclePolicyText": "{bad" + " " * 100}
    assert refused(ecr.put_lifecycle_policy, **policy) == "InvalidParameterException"


def test_flow_logs_need_a_destination(ec2: Any, network: Any) -> None:
    given = {"ResourceIds": [network.vpc], "ResourceType": "VPC", "TrafficType": "ALL"}
    assert refused(ec2.create_flow_logs, **given) == "InvalidParameter"
