"""S3 on loopback: moto's server, and a small proxy before it that keeps a list of requests and can spoil some."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

REGION = "us-east-2"
SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)


@dataclass(frozen=True)
class Request:
    """One request as it came over the wire."""

    method: str
    bucket: str
    key: str
    query: dict[str, str]
    size: int
    """Bytes of its body."""

    @property
    def operation(self) -> str:
        """S3's name of it, as far as the trainer uses it."""
        named = {
            ("POST", "uploads"): "CreateMultipartUpload", ("POST", "uploadId"): "CompleteMultipartUpload",
            ("PUT", "partNumber"): "UploadPart", ("DELETE", "uploadId"): "AbortMultipartUpload",
            ("GET", "uploads"): "ListMultipartUploads", ("POST", "delete"): "DeleteObjects",
            ("GET", "list-type"): "ListObjectsV2",
        }  # fmt: skip
        for (method, mark), name in named.items():
            if self.method == method and mark in self.query:
                return name
        return {"PUT": "PutObject", "GET": "GetObject", "HEAD": "HeadObject"}.get(self.method, self.method)


@dataclass
class S3:
    """The server, reached through the proxy."""

    endpoint: str
    moto: tuple[str, int]
    requests: list[Request] = field(default_factory=list)
    spoil: Callable[[Request], str | None] = lambda _: None
    """What happens to a request: None lets it pass; "503" answers SlowDown; "cut" closes the connection unanswered;
    "lost" carries it out, and closes the connection instead of answering."""
    _buckets: int = 0

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true",
        }  # fmt: skip

    def client(self) -> Any:
        """A boto3 client that goes straight to the server: not counted, not spoilt."""
        import boto3

        return boto3.session.Session().client(
            "s3", endpoint_url=f"http://{self.moto[0]}:{self.moto[1]}", region_name=REGION,
            aws_access_key_id="testing", aws_secret_access_key="testing",
        )  # fmt: skip

    def bucket(self) -> str:
        """A new, empty one."""
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        return name

    def keys(self, bucket: str) -> list[str]:
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def operations(self, bucket: str) -> Counter[str]:
        return Counter(request.operation for request in self.requests if request.bucket == bucket)


@contextmanager
def served() -> Iterator[S3]:
    """Both servers, on free ports of loopback, for the time of the body."""
    from moto.server import ThreadedMotoServer

    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    s3 = S3("", moto.get_host_and_port())

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def carry(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            address = urlsplit(self.path)
            bucket, _, key = unquote(address.path).lstrip("/").partition("/")
            query = {name: values[0] for name, values in parse_qs(address.query, True).items()}
            request = Request(self.command, bucket, key, query, len(body))
            s3.requests.append(request)
            fate = s3.spoil(request)
            if fate == "cut":
                self.close_connection = True
                return
            if fate == "503":
                self.answer(503, [("Content-Type", "application/xml")], SLOW_DOWN)
                return
            onward = http.client.HTTPConnection(*s3.moto, timeout=30)
            headers = {name: value for name, value in self.headers.items() if name != "Expect"}
            onward.request(self.command, self.path, body, headers)
            answer = onward.getresponse()
            content = answer.read()
            onward.close()
            if fate == "lost":
                self.close_connection = True
                return
            self.answer(answer.status, answer.getheaders(), content)

        def answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            size = len(content)
            if self.command == "HEAD":
                size = int({name.lower(): value for name, value in headers}.get("content-length", 0))
            self.send_header("Content-Length", str(size))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = carry

        def log_message(self, *_: object) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    s3.endpoint = f"http://127.0.0.1:{proxy.server_address[1]}"
    try:
        yield s3
    finally:
        proxy.shutdown()
        proxy.server_close()
        moto.stop()
