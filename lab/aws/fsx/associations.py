"""Data repository associations between a file system and S3, one after the other."""

from __future__ import annotations

import shutil
from typing import Any

from moto.s3.models import s3_backends

from lab.aws.actions import ApiError, Call, action
from lab.aws.fsx.repository_sync import Follower, split
from lab.aws.fsx.state import Association, FileSystem, find_file_system, new_id, state, tag_list, tag_map

CREATION = 1.0
"""Seconds; AWS takes minutes, and longer with many objects."""
DELETION = 1.0
BUSY = "Another data repository association of this file system is being created or deleted."
LIMIT = 8
"""Associations of one file system."""


def described(one: Association) -> dict[str, Any]:
    return {
        "AssociationId": one.id,
        "ResourceARN": one.arn,
        "FileSystemId": one.file_system_id,
        "Lifecycle": one.lifecycle,
        "FailureDetails": {"Message": one.failure} if one.failure else None,
        "FileSystemPath": one.path,
        "DataRepositoryPath": one.repository,
        "BatchImportMetaDataOnCreate": one.batch_import,
        "ImportedFileChunkSize": one.chunk_size,
        "S3": one.s3,
        "Tags": tag_list(one.tags),
        "CreationTime": one.created,
    }


def _of(call: Call, file_system: FileSystem) -> list[Association]:
    return [one for one in state(call).associations.values() if one.file_system_id == file_system.id]


def _find(call: Call, association_id: str) -> Association:
    if association_id not in state(call).associations:
        raise ApiError(
            "DataRepositoryAssociationNotFound",
            f"Data repository association '{association_id}' does not exist.",
        )
    return state(call).associations[association_id]


@action("fsx", "CreateDataRepositoryAssociation")
def create_data_repository_association(call: Call) -> dict[str, Any]:
    file_system = find_file_system(call, call["FileSystemId"])
    path, repository = call.get("FileSystemPath", "/"), call["DataRepositoryPath"]
    if file_system.lifecycle != "AVAILABLE":
        raise ApiError("BadRequest", f"The file system is {file_system.lifecycle}.")
    if file_system.lustre["DeploymentType"] == "SCRATCH_1":
        raise ApiError("UnsupportedOperation", "SCRATCH_1 file systems have no data repository associations.")
    others = _of(call, file_system)
    if any(one.lifecycle in ("CREATING", "DELETING") for one in others):
        raise ApiError("BadRequest", BUSY)
    if len(others) >= LIMIT:
        raise ApiError(
            "ServiceLimitExceeded", f"A file system has at most {LIMIT} data repository associations."
        )
    if not path.startswith("/") or ".." in path.split("/"):
        raise ApiError(
            "BadRequest", f"The file system path {path} is not an absolute path of the file system."
        )
    for one in others:
        if one.path.rstrip("/") == path.rstrip("/") or _inside(one.path, path) or _inside(path, one.path):
            raise ApiError("BadRequest", f"The file system path {path} overlaps with {one.path} of {one.id}.")
    if split(repository)[0] not in s3_backends[call.account]["aws"].buckets:
        raise ApiError("BadRequest", f"The bucket of {repository} does not exist or can't be reached.")
    association_id = new_id("dra")
    one = Association(
        id=association_id,
        arn=call.arn("fsx", f"association/{file_system.id}/{association_id}"),
        file_system_id=file_system.id,
        path=path,
        repository=repository,
        batch_import=call.get("BatchImportMetaDataOnCreate", False),
        chunk_size=call.get("ImportedFileChunkSize", 1024),
        s3=dict(call.get("S3", {})),
        tags=tag_map(call.get("Tags")),
    )
    state(call).associations[one.id] = one
    call.world.after(CREATION, lambda: _become_available(call, file_system, one))
    return {"Association": described(one)}


def _inside(outer: str, inner: str) -> bool:
    return inner.rstrip("/").startswith(outer.rstrip("/") + "/")


def _become_available(call: Call, file_system: FileSystem, one: Association) -> None:
    if one.lifecycle != "CREATING":
        return
    one.lifecycle = "AVAILABLE"
    Follower(call.world, file_system, one).begin()


@action("fsx", "DescribeDataRepositoryAssociations")
def describe_data_repository_associations(call: Call) -> dict[str, Any]:
    ids = call.get("AssociationIds") or list(state(call).associations)
    found = [described(_find(call, one)) for one in ids]
    members = {"file-system-id": "FileSystemId", "data-repository-type": None}
    for one in call.get("Filters", []):
        member = members.get(one["Name"])
        found = [item for item in found if member is None or item[member] in one["Values"]]
    return {"Associations": found}


@action("fsx", "UpdateDataRepositoryAssociation")
def update_data_repository_association(call: Call) -> dict[str, Any]:
    one = _find(call, call["AssociationId"])
    one.chunk_size = call.get("ImportedFileChunkSize", one.chunk_size)
    one.s3 = {**one.s3, **call.get("S3", {})}
    return {"Association": described(one)}


@action("fsx", "DeleteDataRepositoryAssociation")
def delete_data_repository_association(call: Call) -> dict[str, Any]:
    one = _find(call, call["AssociationId"])
    file_system = find_file_system(call, one.file_system_id)
    others = [other for other in _of(call, file_system) if other is not one]
    if any(other.lifecycle in ("CREATING", "DELETING") for other in others):
        raise ApiError("BadRequest", BUSY)
    delete_data = call.get("DeleteDataInFileSystem", False)
    if one.lifecycle != "DELETING":
        one.lifecycle = "DELETING"
        call.world.after(DELETION, lambda: _delete(call, file_system, one, delete_data))
    return {"AssociationId": one.id, "Lifecycle": "DELETING", "DeleteDataInFileSystem": delete_data}


def _delete(call: Call, file_system: FileSystem, one: Association, delete_data: bool) -> None:
    if delete_data and one.path.strip("/"):
        shutil.rmtree(file_system.folder / one.path.strip("/"), ignore_errors=True)
    state(call).associations.pop(one.id, None)
