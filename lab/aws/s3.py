"""S3: names, defaults, tags and lifecycle rules of buckets as S3 has them, and S3 Control's calls for tags."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from typing import Any

from moto.s3.models import FakeBucket, FakeDeleteMarker, PublicAccessBlock, S3Backend, s3_backends

from lab.aws.actions import ApiError, Call, action, after, before
from lab.aws.api_request import ApiRequest

Tags = Sequence[Mapping[str, str]]

BUCKET_NAME = re.compile(r"^[a-z0-9](?:[a-z0-9-]|\.(?!\.)){1,61}[a-z0-9]\Z")
RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
RESERVED_SUFFIXES = ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")
"""S3 user guide, "General purpose bucket naming rules"."""
MOST_TAGS = 50
TAG = re.compile(r"^[\w\s+\-=.:/@]*$")
"""Letters, digits, spaces and these signs (S3 user guide, "Using cost allocation S3 bucket tags")."""
LIFECYCLE_ACTIONS = {
    "AbortIncompleteMultipartUpload",
    "Expiration",
    "NoncurrentVersionExpiration",
    "NoncurrentVersionTransition",
    "NoncurrentVersionTransitions",
    "Transition",
    "Transitions",
}
UNKNOWN_TO_MOTO = {
    "abac",
    "analytics",
    "annotation",
    "intelligent-tiering",
    "metadataAnnotationTable",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "metadataTable",
    "metrics",
    "renameObject",
    "requestPayment",
    "session",
    "torrent",
}
"""Parts of a bucket or object whose calls moto takes for calls of the bucket or object itself."""


def unknown_to_moto(request: ApiRequest) -> bool:
    """Whether moto would answer, but something else than what was asked."""
    if request.service != "s3" or request.operation is None:
        return False
    return request.operation.http["requestUri"].partition("?")[2].partition("&")[0] in UNKNOWN_TO_MOTO


def _backend(call: Call) -> S3Backend:
    return s3_backends[call.account]["aws"]


def _bucket(call: Call, name: str) -> FakeBucket:
    return _backend(call).get_bucket(name)  # raises NoSuchBucket


def is_bucket_name(name: str) -> bool:
    """Whether a new general purpose bucket may have this name."""
    reserved = name.startswith(RESERVED_PREFIXES) or name.endswith(RESERVED_SUFFIXES)
    return bool(BUCKET_NAME.match(name)) and not _is_address(name) and not reserved


@before("s3", "CreateBucket")
def check_bucket_name(call: Call) -> None:
    name = call["Bucket"]
    if not is_bucket_name(name):
        raise ApiError("InvalidBucketName", "The specified bucket is not valid.", BucketName=name)


def _is_address(name: str) -> bool:
    try:
        return bool(IPv4Address(name))
    except ValueError:
        return False


def check_tags(tags: Tags) -> None:
    """Raises InvalidTag (or BadRequest for too many) as S3 does."""
    keys = [tag["Key"] for tag in tags]
    if len(set(keys)) < len(keys):
        raise ApiError("InvalidTag", "Cannot provide multiple Tags with the same key")
    if len(tags) > MOST_TAGS:
        raise ApiError("BadRequest", f"Bucket tag count cannot be greater than {MOST_TAGS}")
    for tag in tags:
        key, value = tag["Key"], tag.get("Value", "")
        if key.lower().startswith("aws:"):
            raise ApiError("InvalidTag", "System tags cannot be added/updated by requester")
        if not 1 <= len(key) <= 128 or not TAG.match(key):
            raise ApiError("InvalidTag", "The TagKey you have provided is invalid", TagKey=key)
        if len(value) > 256 or not TAG.match(value):
            raise ApiError("InvalidTag", "The TagValue you have provided is invalid", TagValue=value)


def _tags_at_creation(call: Call) -> Tags:
    tags: Tags = call.get("CreateBucketConfiguration", {}).get("Tags") or []
    return tags


@before("s3", "CreateBucket")
def check_tags_at_creation(call: Call) -> None:
    check_tags(_tags_at_creation(call))


@after("s3", "CreateBucket")
def keep_tags(call: Call, _: Any) -> None:
    """moto reads nothing but the location."""
    if tags := _tags_at_creation(call):
        _set_tags(call, call["Bucket"], {tag["Key"]: tag.get("Value", "") for tag in tags})


@before("s3", "PutBucketTagging")
def check_new_tags(call: Call) -> None:
    check_tags(call.get("Tagging", {}).get("TagSet") or [])


def _set_tags(call: Call, bucket: str, tags: dict[str, str]) -> None:
    _backend(call).put_bucket_tagging(bucket, tags)


@before("s3", "PutBucketLifecycleConfiguration", "PutBucketLifecycle")
def check_lifecycle(call: Call) -> None:
    for rule in call.get("LifecycleConfiguration", {}).get("Rules", []):
        if not LIFECYCLE_ACTIONS & {name for name, value in rule.items() if value}:
            raise ApiError("InvalidRequest", "At least one action needs to be specified in a rule")


@action("s3", "GetBucketRequestPayment")
def get_bucket_request_payment(call: Call) -> dict[str, Any]:
    _bucket(call, call["Bucket"])
    return {"Payer": "BucketOwner"}


def _controlled_bucket(call: Call) -> tuple[str, dict[str, str]]:
    """The bucket that resourceArn names, and its tags."""
    arn = call["ResourceArn"]
    service, _, name = arn.rpartition(":::")
    if service != "arn:aws:s3" or "/" in name:
        raise ApiError("NotImplemented", f"The AWS emulator keeps tags of buckets only, not of {arn}.")
    tags = _backend(call).tagger.get_tag_dict_for_resource(_bucket(call, name).arn)
    return name, dict(tags)


@action("s3control", "ListTagsForResource")
def list_tags_for_resource(call: Call) -> dict[str, Any]:
    _, tags = _controlled_bucket(call)
    return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}


@action("s3control", "TagResource")
def tag_resource(call: Call) -> dict[str, Any]:
    """Adds to the bucket's tags, unlike PutBucketTagging, which replaces them."""
    name, tags = _controlled_bucket(call)
    check_tags(call["Tags"])
    tags |= {tag["Key"]: tag.get("Value", "") for tag in call["Tags"]}
    check_tags([{"Key": key, "Value": value} for key, value in tags.items()])
    _set_tags(call, name, tags)
    return {}


@action("s3control", "UntagResource")
def untag_resource(call: Call) -> dict[str, Any]:
    name, tags = _controlled_bucket(call)
    _set_tags(call, name, {key: value for key, value in tags.items() if key not in call["TagKeys"]})
    return {}


_moto_bucket = FakeBucket.__init__


def _new_bucket(self: FakeBucket, *arguments: Any, **options: Any) -> None:
    """A bucket with the defaults that S3 gives to new ones since April 2023; moto's has none."""
    _moto_bucket(self, *arguments, **options)
    self.encryption = _default_encryption()
    self.ownership_rule = "BucketOwnerEnforced"
    self.public_access_block = PublicAccessBlock("true", "true", "true", "true")


def _default_encryption() -> dict[str, Any]:
    by_default = {"SSEAlgorithm": "AES256"}
    return {"Rule": {"ApplyServerSideEncryptionByDefault": by_default, "BucketKeyEnabled": "false"}}


@after("s3", "DeleteBucketEncryption")
def fall_back_to_s3s_keys(call: Call, _: Any) -> None:
    _bucket(call, call["Bucket"]).encryption = _default_encryption()


def _dispose(marker: FakeDeleteMarker, garbage: bool = False) -> None:
    """Nothing to free: a marker has no content."""


FakeBucket.__init__ = _new_bucket
FakeDeleteMarker.dispose = _dispose  # moto forgets that a version to be deleted may be such a marker
