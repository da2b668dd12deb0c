"""FSx for Lustre: folders, interfaces, and associations one after the other."""

from __future__ import annotations

from typing import Any

import pytest

from lab.aws.fsx import repository_sync
from tests.lab.aws.support import Emulator, Network, refused
from tests.waiting import eventually

PERSISTENT = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125, "DataCompressionType": "LZ4"}


@pytest.fixture
def fsx(emulator: Emulator) -> Any:
    return emulator.client("fsx")


def settings(network: Network, **given: Any) -> dict[str, Any]:
    defaults = {
        "FileSystemType": "LUSTRE",
        "StorageCapacity": 1200,
        "SubnetIds": network.subnets[:1],
        "SecurityGroupIds": [network.group],
        "FileSystemTypeVersion": "2.15",
        "LustreConfiguration": PERSISTENT,
    }
    return defaults | given


def describe(fsx: Any, file_system: str) -> dict[str, Any]:
    return dict(fsx.describe_file_systems(FileSystemIds=[file_system])["FileSystems"][0])


@pytest.fixture
def file_system(fsx: Any, network: Network) -> str:
    made = str(fsx.create_file_system(**settings(network))["FileSystem"]["FileSystemId"])
    eventually(lambda: describe(fsx, made)["Lifecycle"] == "AVAILABLE")
    return made


def test_a_file_system_is_a_folder_and_leaves_nothing(
    emulator: Emulator, fsx: Any, ec2: Any, network: Network, file_system: str
) -> None:
    found = describe(fsx, file_system)
    assert found["DNSName"] == f"{file_system}.fsx.us-east-1.amazonaws.com"
    assert found["LustreConfiguration"]["MountName"]
    folder = emulator.world.lab.file_systems / file_system
    (folder / "weights").write_text("x")
    assert len(found["NetworkInterfaceIds"]) == 2
    assert refused(ec2.delete_subnet, SubnetId=network.subnets[0]) == "DependencyViolation"
    assert refused(ec2.delete_security_group, GroupId=network.group) == "DependencyViolation"
    fsx.delete_file_system(FileSystemId=file_system)
    assert describe(fsx, file_system)["Lifecycle"] == "DELETING"
    eventually(lambda: not folder.exists())
    assert refused(fsx.describe_file_systems, FileSystemIds=[file_system]) == "FileSystemNotFound"
    ec2.delete_security_group(GroupId=network.group)
    ec2.delete_subnet(SubnetId=network.subnets[0])


@pytest.mark.parametrize(
    "given",
    [
        {"StorageCapacity": 1000},
        {"FileSystemType": "WINDOWS"},
        {"FileSystemTypeVersion": "2.10"},
        {"LustreConfiguration": PERSISTENT | {"PerUnitStorageThroughput": 100}},
        {"LustreConfiguration": PERSISTENT | {"ImportPath": "s3://bucket"}},
        {"LustreConfiguration": PERSISTENT | {"EfaEnabled": True}},
        {
            "LustreConfiguration": PERSISTENT
            | {"EfaEnabled": True, "MetadataConfiguration": {"Mode": "AUTOMATIC"}}
        },
    ],
)
def test_impossible_file_systems_are_refused(fsx: Any, network: Network, given: dict[str, Any]) -> None:
    assert refused(fsx.create_file_system, **settings(network, **given)) == "BadRequest"


def test_a_group_that_lets_no_lustre_through_is_refused(fsx: Any, ec2: Any, network: Network) -> None:
    shut = ec2.create_security_group(GroupName="shut", Description="shut", VpcId=network.vpc)["GroupId"]
    wanted = settings(network, SecurityGroupIds=[shut])
    assert refused(fsx.create_file_system, **wanted) == "InvalidNetworkSettings"
    opened = [{"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "UserIdGroupPairs": [{"GroupId": shut}]}]
    ec2.authorize_security_group_ingress(GroupId=shut, IpPermissions=opened)
    assert refused(fsx.create_file_system, **wanted) == "InvalidNetworkSettings"  # 1018–1023 are missing
    more = [{"IpProtocol": "tcp", "FromPort": 1018, "ToPort": 1023, "UserIdGroupPairs": [{"GroupId": shut}]}]
    ec2.authorize_security_group_ingress(GroupId=shut, IpPermissions=more)
    fsx.create_file_system(**wanted)


def test_it_only_grows(fsx: Any, file_system: str) -> None:
    fsx.update_file_system(FileSystemId=file_system, StorageCapacity=2400)
    smaller = {"FileSystemId": file_system, "StorageCapacity": 1200}
    assert refused(fsx.update_file_system, **smaller) == "BadRequest"
    fsx.update_file_system(FileSystemId=file_system, LustreConfiguration={"DataCompressionType": "NONE"})
    assert describe(fsx, file_system)["LustreConfiguration"]["DataCompressionType"] == "NONE"


def test_associations_are_made_one_after_the_other_and_bring_the_objects(
    emulator: Emulator, fsx: Any, file_system: str
) -> None:
    s3 = emulator.client("s3")
    bucket = f"data-{file_system[-8:]}"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="tokens/shard-0", Body=b"tokens")
    s3.put_object(Bucket=bucket, Key="other/file", Body=b"no")
    s3.put_object(Bucket=bucket, Key="tokens/../../escape", Body=b"no")
    wanted = {
        "FileSystemId": file_system,
        "DataRepositoryPath": f"s3://{bucket}/tokens",
        "FileSystemPath": "/data",
    }
    nowhere = wanted | {"DataRepositoryPath": "s3://nobodys-bucket"}
    assert refused(fsx.create_data_repository_association, **nowhere) == "BadRequest"
    for outside in ("data", "/data/../../../elsewhere"):
        escaping = wanted | {"FileSystemPath": outside}
        assert refused(fsx.create_data_repository_association, **escaping) == "BadRequest"
    made = fsx.create_data_repository_association(**wanted, BatchImportMetaDataOnCreate=True)["Association"]
    second = wanted | {"FileSystemPath": "/more"}
    assert refused(fsx.create_data_repository_association, **second) == "BadRequest"

    def described() -> list[dict[str, Any]]:
        filters = [{"Name": "file-system-id", "Values": [file_system]}]
        return list(fsx.describe_data_repository_associations(Filters=filters)["Associations"])

    eventually(lambda: described()[0]["Lifecycle"] == "AVAILABLE")
    folder = emulator.world.lab.file_systems / file_system
    assert {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == {
        "shard-0": b"tokens"
    }
    overlapping = wanted | {"FileSystemPath": "/data/inner"}
    assert refused(fsx.create_data_repository_association, **overlapping) == "BadRequest"
    fsx.create_data_repository_association(**second)
    eventually(lambda: [one["Lifecycle"] for one in described()] == ["AVAILABLE"] * 2)
    fsx.delete_data_repository_association(AssociationId=made["AssociationId"], DeleteDataInFileSystem=True)
    eventually(lambda: [one["FileSystemPath"] for one in described()] == ["/more"])
    assert not (folder / "data").exists()
    fsx.delete_file_system(FileSystemId=file_system)
    eventually(lambda: described() == [])


def test_an_associated_folder_and_its_bucket_follow_each_other(
    emulator: Emulator, fsx: Any, file_system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_sync, "SETTLED", 0.1)
    s3, bucket = emulator.client("s3"), f"both-{file_system[-8:]}"
    s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    folder = emulator.world.lab.file_systems / file_system / "jobs"
    association = fsx.create_data_repository_association(
        FileSystemId=file_system,
        DataRepositoryPath=f"s3://{bucket}/runs",
        FileSystemPath="/jobs",
        S3={
            "AutoImportPolicy": {"Events": ["NEW", "DELETED"]},
            "AutoExportPolicy": {"Events": ["NEW", "CHANGED"]},
        },
    )["Association"]["AssociationId"]
    eventually(folder.is_dir)

    def objects() -> dict[str, bytes]:
        listed = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
        return {one["Key"]: s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read() for one in listed}

    (folder / "step-10").mkdir()
    (folder / "step-10" / "shard").write_bytes(b"first")
    eventually(lambda: objects() == {"runs/step-10/shard": b"first"})
    (folder / "step-10" / "shard").write_bytes(b"second")
    eventually(lambda: objects() == {"runs/step-10/shard": b"second"})
    s3.put_object(Bucket=bucket, Key="runs/note", Body=b"from S3")
    s3.put_object(Bucket=bucket, Key="elsewhere/note", Body=b"not ours")
    eventually(lambda: (folder / "note").exists() and (folder / "note").read_bytes() == b"from S3")
    s3.delete_object(Bucket=bucket, Key="runs/note")
    eventually(lambda: not (folder / "note").exists())
    (folder / "step-10" / "shard").unlink()  # no DELETED among the exported events: it stays in S3
    (folder / "last").write_bytes(b"x")
    eventually(lambda: "runs/last" in objects())
    assert objects()["runs/step-10/shard"] == b"second"
    fsx.delete_data_repository_association(AssociationId=association)
