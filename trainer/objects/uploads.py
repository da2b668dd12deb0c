"""Files sent in parts, many at a time; whole or not at all."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer import exits
from trainer.objects.errors import Refused

if TYPE_CHECKING:
    from trainer.objects.client import Objects

MOST_PARTS = 10_000


@dataclass(frozen=True)
class Sent:
    """An upload that is done: its size in bytes, and hex SHA-256 of what was sent, whole and part by part."""

    size: int
    sha256: str
    part_bytes: int
    """Of every part but the last."""
    parts: tuple[str, ...]


def upload(objects: Objects, key: str, path: Path, part_bytes: int, *, until: float | None = None) -> Sent:
    """See `Objects.upload`."""
    size = path.stat().st_size
    if size <= part_bytes:
        data = path.read_bytes()
        objects.put(key, data, until)
        digest = hashlib.sha256(data).hexdigest()
        return Sent(len(data), digest, part_bytes, (digest,))
    part_bytes = max(part_bytes, -(-size // MOST_PARTS))
    number = str(objects.ask("create_multipart_upload", key, until, Key=key)["UploadId"])
    try:
        tags, sent = _parts(objects, key, number, path, part_bytes, until)
        if sent.size != size:
            raise exits.Failure(f"{path} changed while it was uploaded: {sent.size} bytes instead of {size}")
        _complete(objects, key, number, tags, size)
    except BaseException:
        objects.abort(key, number)
        raise
    return sent


def _parts(
    objects: Objects, key: str, upload: str, path: Path, part_bytes: int, until: float | None
) -> tuple[list[str], Sent]:
    """Send all parts; returns their tags in order."""

    def send(number: int, data: bytes) -> tuple[str, str]:
        arguments: dict[str, Any] = {"Key": key, "UploadId": upload, "PartNumber": number, "Body": data}
        tag = str(objects.ask("upload_part", key, until, **arguments)["ETag"])
        objects.counts.add(sent_bytes=len(data))
        return tag, hashlib.sha256(data).hexdigest()

    whole, size = hashlib.sha256(), 0
    futures: list[Future[tuple[str, str]]] = []
    with ThreadPoolExecutor(objects.threads, "upload") as pool, path.open("rb") as file:
        try:
            while data := file.read(part_bytes):
                whole.update(data)
                size += len(data)
                if len(futures) >= objects.threads:
                    futures[-objects.threads].result()
                futures.append(pool.submit(send, len(futures) + 1, data))
            tags, digests = zip(*(future.result() for future in futures), strict=True)
        finally:
            for future in futures:
                future.cancel()
    return list(tags), Sent(size, whole.hexdigest(), part_bytes, digests)


def _complete(objects: Objects, key: str, upload: str, tags: list[str], size: int) -> None:
    """An answer that got lost is no failure: then the object is there, and the upload is not."""
    parts = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, start=1)]
    arguments: dict[str, Any] = {"Key": key, "UploadId": upload, "MultipartUpload": {"Parts": parts}}
    try:
        objects.ask("complete_multipart_upload", key, **arguments)
    except Refused:
        there = -1
        with suppress(exits.Failure):
            there = objects.size(key)
        if there != size:
            raise
