"""Where an object is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """`s3://bucket/prefix`; the prefix has no slash at either end and may be empty."""

    bucket: str
    prefix: str = ""

    def key(self, *names: str) -> str:
        """Of an object below."""
        return "/".join(part for part in (self.prefix, *names) if part)

    def below(self, *names: str) -> Address:
        return Address(self.bucket, self.key(*names))

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def parse(url: str) -> Address:
    """Raises ValueError with a sentence that names what is wrong."""
    scheme, mark, rest = str(url).partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme != "s3" or not mark or not bucket:
        raise ValueError(f"{url!r} is no S3 address: write s3://bucket/prefix")
    prefix = prefix.rstrip("/")
    if "" in prefix.split("/") and prefix:
        raise ValueError(f"{url!r} has an empty name in its prefix: write s3://bucket/prefix")
    return Address(bucket, prefix)
