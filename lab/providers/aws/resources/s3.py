"""S3: buckets, and the parts of a bucket's configuration that are resources of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from lab.providers.aws.operation import Operation
from lab.providers.aws.table import Autoname, Call, Property, Resource, Step, Tags, out

_MISSING = ["NoSuchBucket", "404", "NotFound"]


def _create_bucket(operation: Operation) -> str:
    name, region = operation.inputs["bucket"], operation.region
    # S3 refuses the constraint for us-east-1, its home.
    place = {"CreateBucketConfiguration": {"LocationConstraint": region}} if region != "us-east-1" else {}
    locked = {"ObjectLockEnabledForBucket": True} if operation.inputs.get("objectLockEnabled") else {}
    operation.created = operation.call("CreateBucket", Bucket=name, **place, **locked)
    return str(name)


def _put_tags(operation: Operation, tags: Mapping[str, str]) -> None:
    pairs = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
    if pairs:
        operation.call("PutBucketTagging", Bucket=operation.id, Tagging={"TagSet": pairs})
    else:
        operation.call("DeleteBucketTagging", Bucket=operation.id)


def _read_bucket(operation: Operation) -> Mapping[str, Any]:
    operation.call("HeadBucket", Bucket=operation.id)
    try:
        tags = operation.call("GetBucketTagging", Bucket=operation.id)["TagSet"]
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchTagSet":
            raise
        tags = []
    return {"bucket": operation.id, "Tags": tags}


def _bucket_properties(operation: Operation, description: Mapping[str, Any]) -> Mapping[str, Any]:
    name, region = operation.id, operation.region
    return {
        "arn": f"arn:{operation.cloud.partition}:s3:::{name}",
        "bucketDomainName": f"{name}.s3.amazonaws.com",
        "bucketRegionalDomainName": f"{name}.s3.{region}.amazonaws.com",
        "bucketRegion": region,
    }


def _delete_bucket(operation: Operation) -> None:
    """With forceDestroy everything inside goes first: objects, versions and unfinished uploads."""
    client, name = operation.client(), operation.id
    if operation.state.get("forceDestroy"):
        for page in client.get_paginator("list_object_versions").paginate(Bucket=name):
            found = [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
            keys = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
            if keys:
                client.delete_objects(Bucket=name, Delete={"Objects": keys, "Quiet": True})
        for page in client.get_paginator("list_multipart_uploads").paginate(Bucket=name):
            for upload in page.get("Uploads", []):
                client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    operation.call("DeleteBucket", Bucket=name)


BUCKET = Resource(
    "aws:s3/bucket:Bucket",
    service="s3",
    id="{bucket}",
    inputs=[
        Property("bucket", replaces=True),
        Property("bucketPrefix", replaces=True, local=True),
        Property("forceDestroy", default=False, local=True),
        Property("objectLockEnabled", replaces=True, computed=True, unread=True),
    ],
    outputs=[
        out("arn"),
        out("bucketDomainName"),
        out("bucketRegionalDomainName"),
        out("bucketRegion"),
    ],
    create=_create_bucket,
    read=_read_bucket,
    delete=_delete_bucket,
    steps=[Step(["forceDestroy"], lambda operation: None)],
    extend=_bucket_properties,
    missing=_MISSING,
    tags=Tags(put=_put_tags, on_create=False),
    autoname=Autoname("bucket", prefix="bucketPrefix", longest=63, lower=True),
    busy=["OperationAborted"],
)


def _part(
    kind: str,
    put: str,
    get: str,
    delete: str | Callable[[Operation], Any],
    properties: Sequence[Property],
    missing: Sequence[str] = (),
) -> Resource:
    """A part of a bucket's configuration. It is put as a whole, and the bucket's name is its id."""
    return Resource(
        f"aws:s3/{kind[0].lower()}{kind[1:]}:{kind}",
        service="s3",
        id="{bucket}",
        inputs=[Property("bucket", replaces=True), *properties],
        create=Call(put),
        read=Call(get, {"Bucket": "{id}"}),
        delete=Call(delete, {"Bucket": "{id}"}) if isinstance(delete, str) else delete,
        steps=[Step([prop.name for prop in properties], Call(put, {"Bucket": "{id}"}), on_create=False)],
        extend=lambda operation, description: {"bucket": operation.id},
        missing=[*_MISSING, *missing],
        # A bucket takes a moment to be known, and one change of it at a time.
        eventual=["NoSuchBucket", "OperationAborted"],
    )


def _stop_versioning(operation: Operation) -> None:
    """Versioning can't be taken away again, only stopped."""
    operation.call(
        "PutBucketVersioning", Bucket=operation.id, VersioningConfiguration={"Status": "Suspended"}
    )


_BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")

RESOURCES = [
    BUCKET,
    _part(
        "BucketVersioning",
        "PutBucketVersioning",
        "GetBucketVersioning",
        _stop_versioning,
        [Property("versioningConfiguration", read="{status: Status, mfaDelete: MFADelete}")],
    ),
    _part(
        "BucketServerSideEncryptionConfiguration",
        "PutBucketEncryption",
        "GetBucketEncryption",
        "DeleteBucketEncryption",
        [
            Property(
                "rules",
                api="ServerSideEncryptionConfiguration.Rules",
                names={"kmsMasterKeyId": "KMSMasterKeyID"},
            )
        ],
        ["ServerSideEncryptionConfigurationNotFoundError"],
    ),
    _part(
        "BucketLifecycleConfiguration",
        "PutBucketLifecycleConfiguration",
        "GetBucketLifecycleConfiguration",
        "DeleteBucketLifecycle",
        [Property("rules", api="LifecycleConfiguration.Rules", read="Rules")],
        ["NoSuchLifecycleConfiguration"],
    ),
    _part(
        "BucketPublicAccessBlock",
        "PutPublicAccessBlock",
        "GetPublicAccessBlock",
        "DeletePublicAccessBlock",
        [
            Property(name, api=f"PublicAccessBlockConfiguration.{name[0].upper()}{name[1:]}", default=False)
            for name in _BLOCKS
        ],
        ["NoSuchPublicAccessBlockConfiguration"],
    ),
    _part(
        "BucketPolicy",
        "PutBucketPolicy",
        "GetBucketPolicy",
        "DeleteBucketPolicy",
        [Property("policy", json=True)],
        ["NoSuchBucketPolicy"],
    ),
    _part(
        "BucketOwnershipControls",
        "PutBucketOwnershipControls",
        "GetBucketOwnershipControls",
        "DeleteBucketOwnershipControls",
        [Property("rule", api="OwnershipControls.Rules", single=True)],
        ["OwnershipControlsNotFoundError"],
    ),
]
