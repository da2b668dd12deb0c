"""One bucket: requests bounded in rate, tried again with jitter, counted."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer import exits
from trainer.objects import uploads
from trainer.objects.errors import Exists, Passing, judged
from trainer.objects.pace import Backoff, Rate
from trainer.objects.uploads import Sent

MIB = 1 << 20
PART_BYTES = 64 * MIB
"""Of a multipart upload, by default; S3 takes 5 MiB to 5 GiB, and 10,000 parts of one object."""
ABORT_SECONDS = 10.0
"""How long giving up an upload is tried: it is best effort."""


@dataclass(frozen=True)
class Entry:
    """One object of a listing; `size` in bytes."""

    key: str
    size: int
    tag: str = field(default="", compare=False)
    """Another one whenever the object was written with other content (S3's ETag)."""


@dataclass
class Counts:
    """What went over the wire since the start."""

    requests: Counter[str] = field(default_factory=Counter)
    """Tries by operation (`UploadPart`), those that failed too."""
    retries: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    waited_seconds: float = 0.0
    """For leave of the rate, over all threads."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, **amounts: float) -> None:
        with self.lock:
            for name, amount in amounts.items():
                setattr(self, name, getattr(self, name) + amount)


class Objects:
    """One bucket, for any number of threads.

    A request that fails for a passing reason (503, 500, a time limit, a broken connection) is tried again for up to
    `patience` seconds, then raises exits.Failure.
    """

    def __init__(
        self,
        bucket: str,
        *,
        rate: Rate | None = None,
        patience: float = 120.0,
        threads: int = 8,
        backoff: Backoff | None = None,
    ) -> None:
        import boto3
        from botocore.config import Config

        self.bucket, self.threads, self._patience = bucket, threads, patience
        self.counts = Counts()
        self._rate, self._backoff = rate, backoff or Backoff()
        # An endpoint of one's own has no name in DNS for every bucket.
        own = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        self._client: Any = boto3.session.Session().client(
            "s3",
            region_name=os.environ.get("AWS_REGION") or None,
            config=Config(
                retries={"total_max_attempts": 1, "mode": "standard"},
                max_pool_connections=threads + 2,
                connect_timeout=10,
                read_timeout=60,
                s3={"addressing_style": "path"} if own else None,
            ),
        )
        self._client.meta.events.register("before-send.s3", self._before_send)

    def _before_send(self, event_name: str, **_: object) -> None:
        """Every HTTP request passes here, each part of an upload too."""
        waited = self._rate.take() if self._rate else 0.0
        with self.counts.lock:
            self.counts.requests[event_name.rpartition(".")[2]] += 1
            self.counts.waited_seconds += waited

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Every object below, in the order of their keys."""
        more: dict[str, Any] = {}
        while True:
            page = self.ask("list_objects_v2", prefix, Prefix=prefix, **more)
            for item in page.get("Contents", ()):
                yield Entry(item["Key"], item["Size"], item["ETag"].strip('"'))
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def size(self, key: str) -> int:
        """In bytes. Raises Missing."""
        return int(self.ask("head_object", key, Key=key)["ContentLength"])

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """`length` bytes from `start`, by default all to the end. Raises Missing."""
        if length == 0:
            return b""
        end = "" if length is None else start + length - 1
        span = {"Range": f"bytes={start}-{end}"} if start or length is not None else {}
        data: bytes = self._patiently(
            "get_object",
            key,
            lambda: self._client.get_object(Bucket=self.bucket, Key=key, **span)["Body"].read(),
        )
        if length is not None and len(data) != length:
            raise exits.Failure(
                f"s3://{self.bucket}/{key}: {len(data)} bytes from {start} instead of {length}: it was cut short"
            )
        self.counts.add(received_bytes=len(data))
        return data

    def put(self, key: str, data: bytes, until: float | None = None) -> None:
        """One request, all or nothing. S3 checks the checksum that boto3 sends along."""
        self.ask("put_object", key, until, Key=key, Body=data)
        self.counts.add(sent_bytes=len(data))

    def create(self, key: str, data: bytes) -> bool:
        """The same, if there is no such object. Of all who try one succeeds; returns whether it was this one. One whose
        answer was lost on the way may have succeeded, and learns that another has."""
        try:
            self.ask("put_object", key, Key=key, Body=data, IfNoneMatch="*")
        except Exists:
            return False
        self.counts.add(sent_bytes=len(data))
        return True

    def upload(
        self, key: str, path: Path, part_bytes: int = PART_BYTES, *, until: float | None = None
    ) -> Sent:
        """A file, in parts of so many bytes (more where S3's limit of parts asks for it), `threads` at a time.

        It holds at most `threads` + 1 parts in memory. A file of one part is one PutObject. After a failure no parts
        are left behind, as far as S3 can be reached. `until` is the moment on the monotonic clock to fail at, if it
        is not done by then. Raises OSError, exits.Failure.
        """
        return uploads.upload(self, key, path, part_bytes, until=until)

    def delete(self, keys: Iterable[str]) -> None:
        """Those that exist; a thousand a request."""
        remaining = list(keys)
        while remaining:
            some, remaining = remaining[:1000], remaining[1000:]
            listing: dict[str, Any] = {"Objects": [{"Key": key} for key in some], "Quiet": True}
            for error in self.ask("delete_objects", some[0], Delete=listing).get("Errors", ()):
                raise exits.Failure(
                    f"s3://{self.bucket}/{error['Key']}: cannot be deleted: {error['Code']}: {error['Message']}"
                )

    def uploads(self, prefix: str) -> list[tuple[str, str]]:
        """Key and id of every multipart upload below that was neither completed nor aborted."""
        found: list[tuple[str, str]] = []
        more: dict[str, Any] = {}
        while True:
            page = self.ask("list_multipart_uploads", prefix, Prefix=prefix, **more)
            found += [(item["Key"], item["UploadId"]) for item in page.get("Uploads", ())]
            if not page.get("IsTruncated"):
                return found
            more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def abort(self, key: str, upload: str) -> None:
        """Give up a multipart upload; what cannot be given up soon is left for a sweep."""
        with suppress(exits.Failure):
            soon = time.monotonic() + ABORT_SECONDS
            self.ask("abort_multipart_upload", key, soon, Key=key, UploadId=upload)

    def ask(self, method: str, about: str, until: float | None = None, **arguments: Any) -> Any:
        """The answer to one call of boto3 about a key or prefix."""
        call = getattr(self._client, method)
        return self._patiently(method, about, lambda: call(Bucket=self.bucket, **arguments), until)

    def _patiently(self, method: str, about: str, once: Callable[[], Any], until: float | None = None) -> Any:
        """What `once` returns, after as many tries as it takes and time allows."""
        began = time.monotonic()
        what = f"s3://{self.bucket}/{about}: {self._client.meta.method_to_api_mapping[method]}"
        if until is not None and began > until:
            raise exits.Failure(f"{what}: the time is up")
        limit = min(began + self._patience, math.inf if until is None else until)
        failures = 0
        while True:
            try:
                return once()
            except Exception as error:
                failure = judged(error, what)
                if failure is None:
                    raise
                if not isinstance(failure, Passing):
                    raise failure from error
                failures += 1
                pause = self._backoff.pause(failures)
                if time.monotonic() + pause > limit:
                    seconds = time.monotonic() - began
                    raise exits.Failure(f"{failure} ({failures} tries in {seconds:.0f} s)") from error
            self.counts.add(retries=1)
            time.sleep(pause)
