"""Objects on S3, against moto's server over real HTTP."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.s3 import S3, Request
from trainer import exits
from trainer.objects import MIB, Address, Entry, Missing, Objects, Refused, parse
from trainer.objects.pace import Backoff, Rate

PART = 5 * MIB
"""The smallest that S3 takes."""
QUICK = Backoff(0.01, 0.05)


@pytest.fixture
def bucket(s3_server: S3, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(s3_server, "spoil", lambda _: None)
    return s3_server.bucket()


def objects(bucket: str, **arguments: Any) -> Objects:
    return Objects(bucket, **{"backoff": QUICK, "patience": 5.0, **arguments})


class Times:
    """Spoils the first `count` requests of an operation."""

    def __init__(self, operation: str, fate: str, count: int) -> None:
        self.operation, self.fate, self.left = operation, fate, count

    def __call__(self, request: Request) -> str | None:
        if request.operation != self.operation or not self.left:
            return None
        self.left -= 1
        return self.fate


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("s3://b", Address("b")),
        ("s3://b/", Address("b")),
        ("s3://b/a/c", Address("b", "a/c")),
        ("s3://b/a/c/", Address("b", "a/c")),
    ],
)
def test_addresses(url: str, address: Address) -> None:
    assert parse(url) == address
    assert str(address) == url.rstrip("/")
    assert address.below("x").key("y") == "/".join(part for part in (address.prefix, "x", "y") if part)


@pytest.mark.parametrize(
    "url", ["", "b/a", "s3:/b", "s3://", "s3:///a", "http://b/a", "s3://b//a", "s3://b/a//c"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="write s3://bucket/prefix"):
        parse(url)


def test_put_list_read_delete(bucket: str) -> None:
    client = objects(bucket)
    data = os.urandom(1000)
    client.put("a/one", data)
    client.put("a/two", b"")
    client.put("b/three", b"3")
    assert list(client.entries("a/")) == [Entry("a/one", 1000), Entry("a/two", 0)]
    assert client.size("a/one") == 1000
    assert client.read("a/one") == data
    assert client.read("a/one", 10, 20) == data[10:30]
    assert client.read("a/one", 990) == data[990:]
    with pytest.raises(exits.Failure, match="10 bytes from 990 instead of 20"):
        client.read("a/one", 990, 20)
    client.delete(["a/one", "a/two", "a/none"])
    assert [entry.key for entry in client.entries("")] == ["b/three"]
    assert client.counts.sent_bytes == 1001
    assert client.counts.received_bytes == 1000 + 20 + 10


@pytest.mark.parametrize("fate", [None, "cut", "503", "lost"])
def test_an_object_is_created_once(fate: str | None, bucket: str, s3_server: S3) -> None:
    client = objects(bucket)
    if fate:
        s3_server.spoil = Times("PutObject", fate, 1)
    created = client.create("one", b"first")
    assert created == (fate != "lost"), "whose answer was lost can't know"
    assert not client.create("one", b"second")
    assert client.read("one") == b"first"
    assert client.counts.sent_bytes == 5 * created


def test_a_listing_has_more_than_one_page(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "3")  # 1,000 on S3 itself
    client = objects(bucket)
    keys = [f"many/{number}" for number in range(7)]
    for key in keys:
        client.put(key, b"")
    assert [entry.key for entry in client.entries("many/")] == keys
    client.delete(keys)
    assert client.counts.requests == {"PutObject": 7, "ListObjectsV2": 3, "DeleteObjects": 1}


def test_what_is_missing_or_refused_is_said_at_once(bucket: str) -> None:
    client = objects(bucket, patience=60)
    with pytest.raises(Missing, match=f"s3://{bucket}/nothing: GetObject: NoSuchKey"):
        client.read("nothing")
    with pytest.raises(Missing):
        client.size("nothing")
    with pytest.raises(Refused, match="NoSuchBucket") as caught:
        objects("no-such-bucket", patience=60).put("a", b"")
    assert caught.value.status == exits.CONFIG
    assert client.counts.retries == 0


def test_a_large_file_goes_in_parts_and_each_is_a_counted_request(
    bucket: str, s3_server: S3, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    data = os.urandom(3 * PART + 7)
    path.write_bytes(data)
    client = objects(bucket, threads=2)
    sent = client.upload("large", path, PART)
    assert (sent.size, sent.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert client.read("large") == data
    expected = {"CreateMultipartUpload": 1, "UploadPart": 4, "CompleteMultipartUpload": 1, "GetObject": 1}
    assert client.counts.requests == expected == s3_server.operations(bucket)
    path.write_bytes(b"small")
    client.upload("small", path, PART)
    assert client.counts.requests["PutObject"] == 1


def test_the_rate_bounds_every_part(bucket: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(3 * PART))
    asked: list[float] = []

    class Counting(Rate):
        def take(self) -> float:
            asked.append(time.monotonic())
            return super().take()

    client = objects(bucket, rate=Counting(1000), threads=3)
    client.upload("large", path, PART)
    assert len(asked) == 5 == sum(client.counts.requests.values())


@pytest.mark.parametrize("fate", ["503", "cut"])
def test_passing_failures_are_tried_again(bucket: str, s3_server: S3, fate: str) -> None:
    client = objects(bucket)
    for operation in ("PutObject", "GetObject", "ListObjectsV2"):
        s3_server.spoil = Times(operation, fate, 3)
        client.put("key", b"value")
        assert client.read("key") == b"value"
        assert [entry.key for entry in client.entries("k")] == ["key"]
    assert client.counts.retries == 9
    assert client.counts.requests == {"PutObject": 6, "GetObject": 6, "ListObjectsV2": 6}


def test_patience_ends_and_says_what_was_tried(bucket: str, s3_server: S3) -> None:
    s3_server.spoil = Times("PutObject", "503", 10**6)
    client = objects(bucket, patience=0.3)
    with pytest.raises(exits.Failure, match=r"PutObject: SlowDown: .* \(\d+ tries in \d+ s\)") as caught:
        client.put("key", b"value")
    assert caught.value.status == exits.RETRY


def test_a_failed_upload_leaves_no_parts(bucket: str, s3_server: S3, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4 * PART))
    s3_server.spoil = lambda request: "503" if request.query.get("partNumber") == "2" else None
    client = objects(bucket, patience=0.3, threads=2)
    with pytest.raises(exits.Failure, match="UploadPart: SlowDown"):
        client.upload("large", path, PART)
    assert client.uploads("") == []
    assert s3_server.keys(bucket) == []
    assert s3_server.operations(bucket)["AbortMultipartUpload"] == 1


def test_a_completion_whose_answer_was_lost_is_one(bucket: str, s3_server: S3, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(2 * PART))
    s3_server.spoil = Times("CompleteMultipartUpload", "lost", 1)
    client = objects(bucket)
    assert client.upload("large", path, PART).size == 2 * PART
    assert client.size("large") == 2 * PART
    assert client.counts.requests["CompleteMultipartUpload"] == 2


def test_incomplete_uploads_are_found_below_a_prefix_only_and_given_up(bucket: str, s3_server: S3) -> None:
    plain = s3_server.client()
    ids = {
        key: plain.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        for key in ("mine/a", "others/b")
    }
    client = objects(bucket)
    assert client.uploads("mine/") == [("mine/a", ids["mine/a"])]
    client.abort(*client.uploads("mine/")[0])
    assert client.uploads("") == [("others/b", ids["others/b"])]
