"""What FSx remembers."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.aws.actions import ApiError, Call


def new_id(prefix: str) -> str:
    """Such as fs-0123456789abcdef0."""
    return f"{prefix}-0{secrets.token_hex(8)}"


@dataclass
class Association:
    """A data repository association: a folder of the file system and a prefix of a bucket."""

    id: str
    arn: str
    file_system_id: str
    path: str
    repository: str
    """s3://bucket/prefix"""
    batch_import: bool
    chunk_size: int
    s3: dict[str, Any]
    tags: dict[str, str]
    lifecycle: str = "CREATING"
    failure: str = ""
    created: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass
class FileSystem:
    id: str
    arn: str
    account: str
    region: str
    storage_capacity: int
    storage_type: str
    subnet_id: str
    vpc_id: str
    group_ids: list[str]
    interface_ids: list[str]
    version: str
    kms_key_id: str | None
    lustre: dict[str, Any]
    """LustreConfiguration as DescribeFileSystems shows it."""
    tags: dict[str, str]
    folder: Path
    lifecycle: str = "CREATING"
    created: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass
class Fsx:
    """File systems and associations by id."""

    file_systems: dict[str, FileSystem] = field(default_factory=dict)
    associations: dict[str, Association] = field(default_factory=dict)


def state(call: Call) -> Fsx:
    return call.world.state(Fsx, call.region)


def find_file_system(call: Call, file_system_id: str) -> FileSystem:
    found = state(call).file_systems.get(file_system_id)
    if found is None:
        raise ApiError("FileSystemNotFound", f"File system '{file_system_id}' does not exist.")
    return found


def tag_map(tags: list[dict[str, str]] | None) -> dict[str, str]:
    return {tag["Key"]: tag.get("Value", "") for tag in tags or []}


def tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
