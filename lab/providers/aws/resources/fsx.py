"""FSx for Lustre: file systems and data repository associations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lab.providers.aws.table import Call, Property, Resource, Status, Step, Tags, inputs, out

_TAGS = Tags(add="TagResource", remove="UntagResource", target={"ResourceARN": "{arn}"})
_READY, _FAILED = frozenset({"AVAILABLE"}), frozenset({"FAILED", "MISCONFIGURED"})


def _failure(description: Mapping[str, Mapping[str, str]]) -> Iterable[str]:
    details = description.get("FailureDetails") or {}
    yield details.get("Message", "no reason given")


_OF_LUSTRE = "LustreConfiguration"


def _lustre(name: str, api: str = "", **flags: bool) -> Property:
    """An input of LustreConfiguration, sent and read there."""
    api = api or name[0].upper() + name[1:]
    return Property(name, api=f"{_OF_LUSTRE}.{api}", **flags)  # type: ignore[arg-type]


LUSTRE_FILE_SYSTEM = Resource(
    "aws:fsx/lustreFileSystem:LustreFileSystem",
    service="fsx",
    id="FileSystem.FileSystemId",
    inputs=[
        Property("subnetIds", replaces=True, single=True),  # pulumi-aws takes one, as a string
        Property("securityGroupIds", replaces=True, unread=True),
        Property("storageCapacity"),
        Property("storageType", replaces=True, default="SSD"),
        Property("fileSystemTypeVersion", replaces=True, computed=True),
        Property("kmsKeyId", replaces=True, computed=True),
        _lustre("deploymentType", replaces=True, computed=True),
        _lustre("perUnitStorageThroughput", computed=True),
        _lustre("dataCompressionType", computed=True),
        _lustre("driveCacheType", replaces=True),
        _lustre("efaEnabled", replaces=True, computed=True),
        _lustre("metadataConfiguration", computed=True),
        _lustre("rootSquashConfiguration"),
        _lustre("logConfiguration", computed=True),
        _lustre("weeklyMaintenanceStartTime", computed=True),
        _lustre("automaticBackupRetentionDays", computed=True),
        _lustre("dailyAutomaticBackupStartTime", computed=True),
        _lustre("copyTagsToBackups", replaces=True, computed=True),
        Property("skipFinalBackup", default=True, local=True),
    ],
    outputs=[
        out("arn", "ResourceARN"),
        out("dnsName", "DNSName"),
        out("mountName", f"{_OF_LUSTRE}.MountName"),
        out("networkInterfaceIds"),
        out("ownerId"),
        out("vpcId"),
    ],
    create=Call("CreateFileSystem", {"FileSystemType": "LUSTRE"}),
    read=Call("DescribeFileSystems", {"FileSystemIds": ["{id}"]}, result="FileSystems[0]"),
    delete=Call("DeleteFileSystem", {"FileSystemId": "{id}"}),
    steps=[
        Step(
            [
                "storageCapacity",
                "perUnitStorageThroughput",
                "dataCompressionType",
                "metadataConfiguration",
                "rootSquashConfiguration",
                "logConfiguration",
                "weeklyMaintenanceStartTime",
                "automaticBackupRetentionDays",
                "dailyAutomaticBackupStartTime",
            ],
            Call("UpdateFileSystem", {"FileSystemId": "{id}"}),
            on_create=False,
        ),
        Step(["skipFinalBackup"], lambda operation: None),
    ],
    missing=["FileSystemNotFound"],
    status=Status("Lifecycle", ready=_READY, failed=_FAILED, reason=_failure, minutes=30),
    tags=_TAGS,
    busy=["BadRequest", "FileSystemInUse"],
)

DATA_REPOSITORY_ASSOCIATION = Resource(
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation",
    service="fsx",
    id="Association.AssociationId",
    inputs=[
        *inputs("fileSystemId", "fileSystemPath", "dataRepositoryPath", replaces=True),
        Property("batchImportMetaDataOnCreate", replaces=True, default=False),
        Property("importedFileChunkSize", computed=True),
        Property("s3", api="S3", computed=True),
        Property("deleteDataInFilesystem", default=False, local=True),
    ],
    outputs=[out("arn", "ResourceARN"), out("associationId")],
    create=Call("CreateDataRepositoryAssociation"),
    read=Call("DescribeDataRepositoryAssociations", {"AssociationIds": ["{id}"]}, result="Associations[0]"),
    delete=Call(
        "DeleteDataRepositoryAssociation",
        {"AssociationId": "{id}", "DeleteDataInFileSystem": "{deleteDataInFilesystem}"},
    ),
    steps=[
        Step(
            ["importedFileChunkSize", "s3"],
            Call("UpdateDataRepositoryAssociation", {"AssociationId": "{id}"}),
            on_create=False,
        ),
        Step(["deleteDataInFilesystem"], lambda operation: None),
    ],
    missing=["DataRepositoryAssociationNotFound"],
    status=Status("Lifecycle", ready=_READY, failed=_FAILED, reason=_failure, minutes=20),
    tags=_TAGS,
    # FSx changes one association of a file system at a time.
    eventual=["is already being created", "another data repository association"],
)

RESOURCES = [LUSTRE_FILE_SYSTEM, DATA_REPOSITORY_ASSOCIATION]
