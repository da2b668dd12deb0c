"""The HTTP side: health, the call log, faults, errors."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.lab.aws.support import Emulator


def calls(emulator: Emulator, action: str) -> list[dict[str, Any]]:
    return [one for one in emulator.console("calls") if one["action"] == action]


def test_health_names_the_lab(emulator: Emulator) -> None:
    health = emulator.console("health")
    assert health["status"] == "ok"
    assert health["lab"] == "test"


def test_nothing_but_loopback_is_listened_on(emulator: Emulator) -> None:
    assert emulator.endpoint.startswith("http://127.0.0.1:")


def test_there_is_no_default_vpc_in_any_region(emulator: Emulator) -> None:
    assert (
        emulator.client("ec2").describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"]
        == []
    )


def test_the_seeded_key_is_the_lab_admin(emulator: Emulator) -> None:
    assert emulator.client("sts").get_caller_identity()["Arn"] == "arn:aws:iam::123456789012:user/lab-admin"


def test_calls_are_logged_with_parameters_status_and_error(emulator: Emulator) -> None:
    ec2 = emulator.client("ec2")
    with pytest.raises(ClientError):
        ec2.describe_placement_groups(GroupNames=["nowhere"])
    entry = calls(emulator, "DescribePlacementGroups")[-1]
    assert entry["service"] == "ec2"
    assert entry["parameters"] == {"GroupNames": ["nowhere"]}
    assert (entry["status"], entry["error"]) == (400, "InvalidPlacementGroup.Unknown")
    assert emulator.console(f"calls?since={entry['sequence']}") == []


def test_rest_calls_are_logged_with_what_is_in_their_path(emulator: Emulator) -> None:
    emulator.client("s3").create_bucket(Bucket="logged-bucket")
    with pytest.raises(ClientError):
        emulator.client("eks").describe_cluster(name="nowhere")
    assert calls(emulator, "CreateBucket")[-1]["parameters"] == {"Bucket": "logged-bucket"}
    entry = calls(emulator, "DescribeCluster")[-1]
    assert entry["parameters"] == {"name": "nowhere"}
    assert entry["error"] == "ResourceNotFoundException"


def test_secrets_are_kept_out_of_the_log(emulator: Emulator) -> None:
    emulator.client("secretsmanager").create_secret(Name="logged", SecretString="hush")
    assert calls(emulator, "CreateSecret")[-1]["parameters"]["SecretString"] == "***"


@pytest.mark.parametrize(
    ("service", "action", "call", "code"),
    [
        ("ec2", "DescribeVpcs", lambda client: client.describe_vpcs(), "RequestLimitExceeded"),
        ("eks", "ListClusters", lambda client: client.list_clusters(), "ThrottlingException"),
        ("logs", "DescribeLogGroups", lambda client: client.describe_log_groups(), "ThrottlingException"),
    ],
)
def test_a_throttled_call_fails_as_often_as_told(
    emulator: Emulator, service: str, action: str, call: Any, code: str
) -> None:
    emulator.console("faults", {"service": service, "action": action, "times": 2, "error": "throttle"})
    client = emulator.client(service)
    with pytest.raises(ClientError) as failure:
        call(client)
    assert failure.value.response["Error"]["Code"] == code
    call(client)
    assert emulator.console("faults") == []


def test_an_unknown_member_of_a_fault_is_refused(emulator: Emulator) -> None:
    with pytest.raises(urllib.error.HTTPError) as failure:
        emulator.console("faults", {"service": "ec2", "often": True})
    assert failure.value.code == 400


def test_web_pages_are_not_invited(emulator: Emulator) -> None:
    request = urllib.request.Request(f"{emulator.endpoint}/", headers={"Origin": "https://example.com"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    ("service", "action", "call"),
    [
        ("ec2", "DescribeTrunkInterfaceAssociations", lambda it: it.describe_trunk_interface_associations()),
        ("eks", "ListInsights", lambda it: it.list_insights(clusterName="any")),
        ("fsx", "DescribeVolumes", lambda it: it.describe_volumes()),
        (
            "s3",
            "GetBucketMetadataConfiguration",
            lambda it: it.get_bucket_metadata_configuration(Bucket="any"),
        ),
        ("sns", "ListOriginationNumbers", lambda it: it.list_origination_numbers()),
        ("outposts", "ListOutposts", lambda it: it.list_outposts()),
    ],
)
def test_what_the_emulator_cannot_do_is_an_error_that_says_so(
    emulator: Emulator, caplog: pytest.LogCaptureFixture, service: str, action: str, call: Any
) -> None:
    with pytest.raises(ClientError) as failure:
        call(emulator.client(service))
    error = failure.value.response["Error"]
    assert error["Code"] == "NotImplemented"
    for text in (error["Message"], caplog.text):
        assert f"{service} {action}" in text
        assert "lab/aws/__init__.py" in text
    assert calls(emulator, action)[-1]["error"] == "NotImplemented"
