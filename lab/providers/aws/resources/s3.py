"""S3: buckets, and the parts of a bucket's configuration that are resources of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from lab.providers.aws.cloud import model
from lab.providers.aws.convert import from_api, to_api
from lab.providers.aws.operation import Operation, search
from lab.providers.aws.table import Autoname, Call, Property, Resource, Step, Tags, inputs, out

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
        "bucket": name,
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


# A bucket's configuration: each part is put as a whole and is the bucket's own id.


def _part(
    kind: str,
    put: str,
    get: str,
    delete: str | Callable[[Operation], Any],
    properties: list[Property],
    body: Callable[[Operation], Mapping[str, Any]],
    read: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    missing: list[str],
) -> Resource:
    def send(operation: Operation) -> str:
        operation.created = operation.call(put, Bucket=operation.value("bucket"), **body(operation))
        return str(operation.value("bucket"))

    def look(operation: Operation) -> Mapping[str, Any]:
        return {"bucket": operation.id, **read(operation.call(get, Bucket=operation.id))}

    names = [prop.name for prop in properties]
    return Resource(
        f"aws:s3/{kind[0].lower()}{kind[1:]}:{kind}",
        service="s3",
        id="{bucket}",
        inputs=[Property("bucket", replaces=True), *properties],
        create=send,
        read=look,
        delete=Call(delete, {"Bucket": "{id}"}) if isinstance(delete, str) else delete,
        steps=[Step(names, send, on_create=False)],
        missing=[*_MISSING, *missing],
        eventual=["NoSuchBucket", "OperationAborted"],
    )


def _versioning(operation: Operation) -> Mapping[str, Any]:
    wanted = operation.inputs["versioningConfiguration"]
    settings = {"Status": wanted["status"]}
    if wanted.get("mfaDelete"):
        settings["MFADelete"] = wanted["mfaDelete"]
    return {"VersioningConfiguration": settings}


def _stop_versioning(operation: Operation) -> None:
    """Versioning can't be taken away again, only stopped."""
    operation.call(
        "PutBucketVersioning", Bucket=operation.id, VersioningConfiguration={"Status": "Suspended"}
    )


def _encryption(operation: Operation) -> Mapping[str, Any]:
    rules = []
    for rule in operation.inputs["rules"]:
        by_default = rule.get("applyServerSideEncryptionByDefault")
        sent: dict[str, Any] = {}
        if by_default:
            sent["ApplyServerSideEncryptionByDefault"] = {
                key: value
                for key, value in (
                    ("SSEAlgorithm", by_default["sseAlgorithm"]),
                    ("KMSMasterKeyID", by_default.get("kmsMasterKeyId")),
                )
                if value
            }
        if rule.get("bucketKeyEnabled") is not None:
            sent["BucketKeyEnabled"] = bool(rule["bucketKeyEnabled"])
        rules.append(sent)
    return {"ServerSideEncryptionConfiguration": {"Rules": rules}}


def _read_encryption(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    rules = []
    for rule in search("ServerSideEncryptionConfiguration.Rules", answer) or []:
        found = rule.get("ApplyServerSideEncryptionByDefault") or {}
        by_default = {
            "sseAlgorithm": found.get("SSEAlgorithm"),
            "kmsMasterKeyId": found.get("KMSMasterKeyID"),
        }
        rules.append(
            {
                "applyServerSideEncryptionByDefault": {k: v for k, v in by_default.items() if v},
                "bucketKeyEnabled": rule.get("BucketKeyEnabled", False),
            }
        )
    return {"rules": rules}


def _lifecycle(operation: Operation) -> Mapping[str, Any]:
    """The rules by botocore's model; only filters of several conditions and plural names differ."""
    shape = model("s3").operation_model("PutBucketLifecycleConfiguration").input_shape
    rules_shape = shape.members["LifecycleConfiguration"].members["Rules"]
    names = {"id": "ID", "noncurrentVersionTransitions": "NoncurrentVersionTransitions"}
    rules = to_api(rules_shape, operation.inputs["rules"], names, "rules", [])
    for rule in rules:
        rule.setdefault("Filter", {"Prefix": ""})
    return {"LifecycleConfiguration": {"Rules": rules}}


def _read_lifecycle(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    rules = from_api(answer["Rules"])
    for rule in rules:
        expiration = rule.get("expiration")
        if expiration and not expiration.get("expiredObjectDeleteMarker"):
            expiration.pop("expiredObjectDeleteMarker", None)
    return {"rules": rules}


_BLOCKS = ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")


def _public_access(operation: Operation) -> Mapping[str, Any]:
    return {
        "PublicAccessBlockConfiguration": {
            name[0].upper() + name[1:]: bool(operation.inputs.get(name)) for name in _BLOCKS
        }
    }


RESOURCES = [
    BUCKET,
    _part(
        "BucketVersioning",
        "PutBucketVersioning",
        "GetBucketVersioning",
        _stop_versioning,
        [Property("versioningConfiguration"), Property("mfa", local=True)],
        _versioning,
        lambda answer: {
            "versioningConfiguration": {
                "status": answer.get("Status", "Disabled"),
                "mfaDelete": answer.get("MFADelete", ""),
            }
        },
        [],
    ),
    _part(
        "BucketServerSideEncryptionConfiguration",
        "PutBucketEncryption",
        "GetBucketEncryption",
        "DeleteBucketEncryption",
        [Property("rules")],
        _encryption,
        _read_encryption,
        ["ServerSideEncryptionConfigurationNotFoundError"],
    ),
    _part(
        "BucketLifecycleConfiguration",
        "PutBucketLifecycleConfiguration",
        "GetBucketLifecycleConfiguration",
        "DeleteBucketLifecycle",
        [Property("rules"), Property("transitionDefaultMinimumObjectSize", local=True)],
        _lifecycle,
        _read_lifecycle,
        ["NoSuchLifecycleConfiguration"],
    ),
    _part(
        "BucketPublicAccessBlock",
        "PutPublicAccessBlock",
        "GetPublicAccessBlock",
        "DeletePublicAccessBlock",
        [*inputs(*_BLOCKS, default=False), Property("skipDestroy", local=True)],
        _public_access,
        lambda answer: answer["PublicAccessBlockConfiguration"],
        ["NoSuchPublicAccessBlockConfiguration"],
    ),
    _part(
        "BucketPolicy",
        "PutBucketPolicy",
        "GetBucketPolicy",
        "DeleteBucketPolicy",
        [Property("policy", json=True)],
        lambda operation: {"Policy": operation.inputs["policy"]},
        lambda answer: {"policy": answer["Policy"]},
        ["NoSuchBucketPolicy"],
    ),
    _part(
        "BucketOwnershipControls",
        "PutBucketOwnershipControls",
        "GetBucketOwnershipControls",
        "DeleteBucketOwnershipControls",
        [Property("rule")],
        lambda operation: {
            "OwnershipControls": {"Rules": [{"ObjectOwnership": operation.inputs["rule"]["objectOwnership"]}]}
        },
        lambda answer: {
            "rule": {"objectOwnership": search("OwnershipControls.Rules[0].ObjectOwnership", answer)}
        },
        ["OwnershipControlsNotFoundError"],
    ),
]
