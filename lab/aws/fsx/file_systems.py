"""File systems for Lustre: each is a folder of the lab, and interfaces in a subnet."""

from __future__ import annotations

import secrets
import shutil
from math import ceil
from typing import Any

from lab.aws.actions import ApiError, Call, action
from lab.aws.ec2.interfaces import create_owned, remove_owned
from lab.aws.ec2.tags import backend
from lab.aws.fsx.rules import check_capacity, check_configuration, check_groups
from lab.aws.fsx.state import Association, FileSystem, find_file_system, new_id, state, tag_list, tag_map
from lab.aws.world import World

CREATION = 2.0
"""Seconds; AWS takes 5 to 15 minutes."""
DELETION = 2.0
IMPORTS = ("ImportPath", "ExportPath", "ImportedFileChunkSize", "AutoImportPolicy")
"""Members of the older way to S3, which DescribeFileSystems shows elsewhere."""
SERVER_GIB = 2400
"""One object storage server, and so one interface, for about this much."""


def described(file_system: FileSystem) -> dict[str, Any]:
    return {
        "OwnerId": file_system.account,
        "CreationTime": file_system.created,
        "FileSystemId": file_system.id,
        "FileSystemType": "LUSTRE",
        "Lifecycle": file_system.lifecycle,
        "StorageCapacity": file_system.storage_capacity,
        "StorageType": file_system.storage_type,
        "VpcId": file_system.vpc_id,
        "SubnetIds": [file_system.subnet_id],
        "NetworkInterfaceIds": file_system.interface_ids,
        "DNSName": f"{file_system.id}.fsx.{file_system.region}.amazonaws.com",
        "KmsKeyId": file_system.kms_key_id,
        "ResourceARN": file_system.arn,
        "Tags": tag_list(file_system.tags),
        "LustreConfiguration": file_system.lustre,
        "FileSystemTypeVersion": file_system.version,
    }


@action("fsx", "CreateFileSystem")
def create_file_system(call: Call) -> dict[str, Any]:
    given = call.get("LustreConfiguration", {})
    deployment = given.get("DeploymentType", "SCRATCH_1")
    storage_type = call.get("StorageType", "SSD")
    if call["FileSystemType"] != "LUSTRE":
        raise ApiError("BadRequest", "This lab has file systems of type LUSTRE only.")
    check_capacity(call.get("StorageCapacity"), deployment)
    version = check_configuration(call, given, deployment)
    [subnet_id] = call["SubnetIds"][:1] or [None]
    subnet = next((one for one in backend(call).describe_subnets() if one.id == subnet_id), None)
    if subnet is None or len(call["SubnetIds"]) != 1:
        raise ApiError(
            "InvalidNetworkSettings",
            f"Exactly one subnet that exists is needed: {call['SubnetIds']}",
            InvalidSubnetId=subnet_id,
        )
    groups = check_groups(call, subnet.vpc_id)
    file_system_id = new_id("fs")
    count = 1 + ceil(call["StorageCapacity"] / SERVER_GIB)  # and one for the metadata server
    file_system = FileSystem(
        id=file_system_id,
        arn=call.arn("fsx", f"file-system/{file_system_id}"),
        account=call.account,
        region=call.region,
        storage_capacity=call["StorageCapacity"],
        storage_type=storage_type,
        subnet_id=subnet.id,
        vpc_id=subnet.vpc_id,
        group_ids=groups,
        interface_ids=[
            create_owned(
                call.account,
                call.region,
                subnet.id,
                f"Created by Amazon FSx for file system {file_system_id}",
                "amazon-fsx",
                groups,
            )
            for _ in range(count)
        ],
        version=version,
        kms_key_id=_key(call, deployment),
        lustre=_configuration(given, deployment),
        tags=tag_map(call.get("Tags")),
        folder=call.world.lab.file_systems / file_system_id,
    )
    state(call).file_systems[file_system.id] = file_system
    call.world.after(CREATION, lambda: _become_available(file_system))
    return {"FileSystem": described(file_system)}


def _key(call: Call, deployment: str) -> str | None:
    """Persistent file systems are encrypted by the service's own key unless the call names one."""
    if deployment.startswith("SCRATCH"):
        return None
    return str(call.get("KmsKeyId") or call.arn("kms", "alias/aws/fsx"))


def _configuration(given: dict[str, Any], deployment: str) -> dict[str, Any]:
    known = {
        "WeeklyMaintenanceStartTime": "1:05:00",
        "DataCompressionType": "NONE",
        "CopyTagsToBackups": False,
        **{name: value for name, value in given.items() if name not in IMPORTS},
        "DeploymentType": deployment,
        "MountName": "fsx" if deployment == "SCRATCH_1" else secrets.token_hex(4),
    }
    if deployment.startswith("PERSISTENT"):
        known.setdefault("AutomaticBackupRetentionDays", 0)
    return known


def _become_available(file_system: FileSystem) -> None:
    if file_system.lifecycle == "CREATING":
        file_system.folder.mkdir(parents=True, exist_ok=True)
        file_system.lifecycle = "AVAILABLE"


@action("fsx", "DescribeFileSystems")
def describe_file_systems(call: Call) -> dict[str, Any]:
    ids = call.get("FileSystemIds") or list(state(call).file_systems)
    return {"FileSystems": [described(find_file_system(call, one)) for one in ids]}


@action("fsx", "UpdateFileSystem")
def update_file_system(call: Call) -> dict[str, Any]:
    """Takes effect at once; the capacity can only grow."""
    file_system = find_file_system(call, call["FileSystemId"])
    if file_system.lifecycle != "AVAILABLE":
        raise ApiError("BadRequest", f"The file system is {file_system.lifecycle}.")
    capacity = call.get("StorageCapacity", file_system.storage_capacity)
    check_capacity(capacity, file_system.lustre["DeploymentType"])
    if capacity < file_system.storage_capacity:
        raise ApiError("BadRequest", "The storage capacity of a file system can't be decreased.")
    file_system.storage_capacity = capacity
    file_system.lustre.update(call.get("LustreConfiguration", {}))
    return {"FileSystem": described(file_system)}


@action("fsx", "DeleteFileSystem")
def delete_file_system(call: Call) -> dict[str, Any]:
    """Its associations go with it. The interfaces hold subnet and groups until it is gone."""
    file_system = find_file_system(call, call["FileSystemId"])
    if file_system.lifecycle != "DELETING":
        file_system.lifecycle = "DELETING"
        for one in state(call).associations.values():
            if one.file_system_id == file_system.id:
                one.lifecycle = "DELETING"
        call.world.after(DELETION, lambda: _delete(call, file_system))
    return {"FileSystemId": file_system.id, "Lifecycle": "DELETING", "LustreResponse": {}}


def _delete(call: Call, file_system: FileSystem) -> None:
    remove_folder(call.world, file_system)
    remove_owned(call.account, call.region, file_system.interface_ids)
    fsx = state(call)
    fsx.file_systems.pop(file_system.id, None)
    fsx.associations = {
        name: one for name, one in fsx.associations.items() if one.file_system_id != file_system.id
    }


def remove_folder(world: World, file_system: FileSystem) -> None:
    """Delete the data; never anything outside the lab's own folder of file systems."""
    if file_system.folder.parent == world.lab.file_systems:
        shutil.rmtree(file_system.folder, ignore_errors=True)


@action("fsx", "TagResource")
def tag_resource(call: Call) -> None:
    _tags(call).update(tag_map(call["Tags"]))


@action("fsx", "UntagResource")
def untag_resource(call: Call) -> None:
    tags = _tags(call)
    for key in call["TagKeys"]:
        tags.pop(key, None)


@action("fsx", "ListTagsForResource")
def list_tags_for_resource(call: Call) -> dict[str, Any]:
    return {"Tags": tag_list(_tags(call))}


def _tags(call: Call) -> dict[str, str]:
    fsx = state(call)
    holders: list[FileSystem | Association] = [*fsx.file_systems.values(), *fsx.associations.values()]
    for one in holders:
        if one.arn == call["ResourceARN"]:
            return one.tags
    raise ApiError(
        "ResourceNotFound", f"No resource with the ARN {call['ResourceARN']}", ResourceARN=call["ResourceARN"]
    )
