"""Buckets: what S3 refuses, and tags in every way that they are given and read."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSRequest
from hypothesis import given
from hypothesis import strategies as st

from lab.aws import s3 as rules
from lab.aws.seed import ACCESS_KEY, SECRET_KEY
from lab.settings import ACCOUNT
from tests.lab.aws.support import REGION, Emulator, Network, refused

TAGS = [{"Key": "team", "Value": "research"}, {"Key": "cost center", "Value": "4/2"}]


@pytest.fixture(scope="session")
def s3(emulator: Emulator) -> Any:
    return emulator.client("s3")


@pytest.fixture
def bucket(s3: Any, network: Network) -> str:
    name = f"test-{network.vpc}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture(scope="session")
def control(emulator: Emulator) -> Any:
    """S3 Control on the plain host: no host on an IP address can begin with the account's number."""
    client = boto3.client(
        "s3control",
        endpoint_url=emulator.endpoint,
        region_name=REGION,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
    )

    def plain_host(request: AWSRequest, **_: Any) -> None:
        request.url = request.url.replace(f"//{ACCOUNT}.", "//")

    client.meta.events.register("before-sign.s3-control", plain_host)
    return client


def tags(s3: Any, bucket: str) -> list[dict[str, str]]:
    return list(s3.get_bucket_tagging(Bucket=bucket)["TagSet"])


def test_tags_of_the_creation_are_kept(s3: Any, network: Network) -> None:
    name = f"tagged-{network.vpc}"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"Tags": TAGS})
    assert tags(s3, name) == TAGS


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ([{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}], "InvalidTag"),
        ([{"Key": "aws:mine", "Value": "1"}], "InvalidTag"),
        ([{"Key": "k" * 129, "Value": ""}], "InvalidTag"),
        ([{"Key": "a", "Value": "v" * 257}], "InvalidTag"),
        ([{"Key": "a;b", "Value": ""}], "InvalidTag"),
        ([{"Key": str(number), "Value": ""} for number in range(51)], "BadRequest"),
    ],
)
def test_wrong_tags_are_refused_everywhere(
    s3: Any, control: Any, network: Network, bucket: str, wrong: list[dict[str, str]], code: str
) -> None:
    name = f"never-{network.vpc}"
    made = refused(s3.create_bucket, Bucket=name, CreateBucketConfiguration={"Tags": wrong})
    assert made == code
    assert refused(s3.head_bucket, Bucket=name) == "404"
    assert refused(s3.put_bucket_tagging, Bucket=bucket, Tagging={"TagSet": wrong}) == code
    arn = f"arn:aws:s3:::{bucket}"
    assert refused(control.tag_resource, AccountId=ACCOUNT, ResourceArn=arn, Tags=wrong) == code


def test_s3_control_reads_and_changes_the_buckets_tags(s3: Any, control: Any, bucket: str) -> None:
    one = {"AccountId": ACCOUNT, "ResourceArn": f"arn:aws:s3:::{bucket}"}
    assert control.list_tags_for_resource(**one)["Tags"] == []
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": TAGS})
    control.tag_resource(**one, Tags=[{"Key": "team", "Value": "other"}, {"Key": "new", "Value": ""}])
    now = {tag["Key"]: tag["Value"] for tag in control.list_tags_for_resource(**one)["Tags"]}
    assert now == {"team": "other", "cost center": "4/2", "new": ""}
    control.untag_resource(**one, TagKeys=["team", "new"])
    assert tags(s3, bucket) == TAGS[1:]
    missing = one | {"ResourceArn": "arn:aws:s3:::no-such-bucket-here"}
    assert refused(control.list_tags_for_resource, **missing) == "NoSuchBucket"


@pytest.mark.parametrize(
    "name", ["Upper-Case", "under_score", "-front", "back-", "two..dots", "10.0.0.1", "xn--x", "a-s3alias"]
)
def test_wrong_bucket_names_are_refused(s3: Any, name: str) -> None:
    assert refused(s3.create_bucket, Bucket=name) == "InvalidBucketName"


@given(st.from_regex(r"[a-z0-9]([a-z0-9-]{1,61})[a-z0-9]", fullmatch=True))
def test_plain_names_are_allowed(name: str) -> None:
    reserved = name.startswith(rules.RESERVED_PREFIXES) or name.endswith(rules.RESERVED_SUFFIXES)
    assert rules.is_bucket_name(name) != reserved
    assert not rules.is_bucket_name(name[:-1] + "A")


def test_a_lifecycle_rule_has_an_action(s3: Any, bucket: str) -> None:
    rule = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}}
    put = s3.put_bucket_lifecycle_configuration
    assert refused(put, Bucket=bucket, LifecycleConfiguration={"Rules": [rule]}) == "InvalidRequest"
    for action in (
        {"Expiration": {"Days": 1}},
        {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}},
        {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
        {"Transitions": [{"Days": 30, "StorageClass": "GLACIER"}]},
    ):
        put(Bucket=bucket, LifecycleConfiguration={"Rules": [rule | action]})
        [found] = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
        assert found == rule | action


def test_the_bucket_owner_pays(s3: Any, bucket: str) -> None:
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"


@pytest.mark.parametrize(
    "call",
    [
        lambda s3, bucket: s3.list_bucket_analytics_configurations(Bucket=bucket),
        lambda s3, bucket: s3.put_bucket_request_payment(
            Bucket=bucket, RequestPaymentConfiguration={"Payer": "Requester"}
        ),
    ],
)
def test_what_moto_takes_for_another_call_is_not_implemented(s3: Any, bucket: str, call: Any) -> None:
    assert refused(call, s3=s3, bucket=bucket) == "NotImplemented"


def test_a_new_bucket_is_private_and_encrypted(s3: Any, bucket: str) -> None:
    def algorithm() -> str:
        found = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
        return str(found[0]["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"])

    assert algorithm() == "AES256"
    assert all(s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"].values())
    owner = s3.get_bucket_ownership_controls(Bucket=bucket)["OwnershipControls"]["Rules"]
    assert owner == [{"ObjectOwnership": "BucketOwnerEnforced"}]
    by_kms = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}]}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=by_kms)
    assert algorithm() == "aws:kms"
    s3.delete_bucket_encryption(Bucket=bucket)
    assert algorithm() == "AES256"
    s3.delete_public_access_block(Bucket=bucket)
    assert refused(s3.get_public_access_block, Bucket=bucket) == "NoSuchPublicAccessBlockConfiguration"
