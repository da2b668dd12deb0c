"""Where data lives: two S3 buckets, and a Lustre file system that shows them to the nodes."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from cluster import policies, retention
from cluster.control_plane import ControlPlane
from cluster.names import prefix
from cluster.network import Network
from cluster.settings.sections import Storage

LUSTRE_PORTS = ((988, 988), (1018, 1023))
"""TCP between clients and file servers, both ways (FSx for Lustre guide, "File system access control")."""
DATA_FOLDER, JOBS_FOLDER = "/data", "/jobs"
"""Folders of the file system that stand for the two buckets."""
_SLOW = pulumi.CustomTimeouts(create="60m", update="60m", delete="60m")


class Buckets(pulumi.ComponentResource):
    """Training data, and what jobs write: private, encrypted, versioned, over TLS only.

    SSE-S3 encrypts with a key of S3's own, so nothing else has to be kept to read them.
    """

    data: aws.s3.Bucket
    checkpoints: aws.s3.Bucket

    def __init__(self, name: str, settings: Storage, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("shardyard:cluster:Buckets", name, None, opts)
        self._delete = settings.delete_data
        self.data = self._bucket(f"{name}-data")
        self.checkpoints = self._bucket(f"{name}-checkpoints", settings.checkpoint_expiration_days)
        self.register_outputs({"data": self.data.bucket, "checkpoints": self.checkpoints.bucket})

    def _bucket(self, label: str, days: int | None = None) -> aws.s3.Bucket:
        child = retention.on_destroy(self, delete=self._delete)
        bucket = aws.s3.Bucket(
            label,
            bucket_prefix=prefix(label, 37),
            force_destroy=self._delete,
            tags=retention.tags(label, delete=self._delete),
            opts=child,
        )
        aws.s3.BucketOwnershipControls(
            label, bucket=bucket.bucket, rule={"object_ownership": "BucketOwnerEnforced"}, opts=child
        )
        block = aws.s3.BucketPublicAccessBlock(
            label,
            bucket=bucket.bucket,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=child,
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            label,
            bucket=bucket.bucket,
            rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
            opts=child,
        )
        versioning = aws.s3.BucketVersioning(
            label, bucket=bucket.bucket, versioning_configuration={"status": "Enabled"}, opts=child
        )
        rules: list[aws.s3.BucketLifecycleConfigurationRuleArgsDict] = [
            {
                "id": "leftovers",
                "status": "Enabled",
                "filter": {"prefix": ""},
                "abort_incomplete_multipart_upload": {"days_after_initiation": 3},
                "noncurrent_version_expiration": {"noncurrent_days": 7},
            }
        ]
        if days:
            rules.append(
                {"id": "age", "status": "Enabled", "filter": {"prefix": ""}, "expiration": {"days": days}}
            )
        aws.s3.BucketLifecycleConfiguration(
            label,
            bucket=bucket.bucket,
            rules=rules,
            # Rules about old versions say nothing until there are versions.
            opts=retention.on_destroy(self, delete=self._delete, depends_on=[versioning]),
        )
        aws.s3.BucketPolicy(
            label,
            bucket=bucket.bucket,
            policy=policies.output(_tls_only, arn=bucket.arn),
            # S3 changes one thing about a bucket's access at a time.
            opts=retention.on_destroy(self, delete=self._delete, depends_on=[block]),
        )
        return bucket


def _tls_only(arn: str) -> list[policies.Statement]:
    return [
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": [arn, f"{arn}/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    ]


@dataclass(frozen=True)
class Mount:
    """What a volume needs to know to mount the file system."""

    file_system_id: pulumi.Output[str]
    dns_name: pulumi.Output[str]
    mount_name: pulumi.Output[str]
    capacity_gib: int


class FileSystem(pulumi.ComponentResource):
    """FSx for Lustre: scratch speed for nodes, joined to the buckets by data repository associations."""

    mount: Mount
    associations: list[aws.fsx.DataRepositoryAssociation]

    def __init__(
        self,
        name: str,
        settings: Storage,
        *,
        network: Network,
        control_plane: ControlPlane,
        buckets: Buckets,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("shardyard:cluster:FileSystem", name, None, opts)
        group, rules = self._security_group(name, network.vpc_id, control_plane.security_group_id)
        lustre = aws.fsx.LustreFileSystem(
            f"{name}-lustre",
            deployment_type="PERSISTENT_2",
            storage_type="SSD",
            storage_capacity=settings.file_system.capacity_gib,
            per_unit_storage_throughput=settings.file_system.per_unit_storage_throughput,
            file_system_type_version="2.15",  # what the AL2023 client speaks
            data_compression_type="LZ4",
            subnet_ids=network.private_subnet_ids[settings.file_system.zone],
            security_group_ids=[group.id],
            automatic_backup_retention_days=0,  # the buckets are the durable copy
            skip_final_backup=True,
            tags={"Name": f"{name}-lustre"},
            opts=pulumi.ResourceOptions(parent=self, depends_on=rules, custom_timeouts=_SLOW),
        )
        self.mount = Mount(lustre.id, lustre.dns_name, lustre.mount_name, settings.file_system.capacity_gib)
        data = self._associate(
            f"{name}-data",
            lustre.id,
            DATA_FOLDER,
            buckets.data,
            auto_import=["NEW", "CHANGED", "DELETED"],
            after=[],
        )
        jobs = self._associate(
            f"{name}-jobs",
            lustre.id,
            JOBS_FOLDER,
            buckets.checkpoints,
            # Not DELETED: what a job tidies away on the file system stays in S3.
            auto_export=["NEW", "CHANGED"],
            after=[data],  # FSx makes one at a time
        )
        self.associations = [data, jobs]
        self.register_outputs({"file_system_id": lustre.id})

    def _associate(
        self,
        label: str,
        file_system_id: pulumi.Output[str],
        folder: str,
        bucket: aws.s3.Bucket,
        *,
        auto_import: list[str] | None = None,
        auto_export: list[str] | None = None,
        after: list[pulumi.Resource],
    ) -> aws.fsx.DataRepositoryAssociation:
        return aws.fsx.DataRepositoryAssociation(
            label,
            file_system_id=file_system_id,
            file_system_path=folder,
            data_repository_path=bucket.bucket.apply(lambda bucket_name: f"s3://{bucket_name}"),
            batch_import_meta_data_on_create=auto_import is not None,
            s3={
                "auto_import_policy": {"events": auto_import} if auto_import else None,
                "auto_export_policy": {"events": auto_export} if auto_export else None,
            },
            tags={"Name": label},
            opts=pulumi.ResourceOptions(parent=self, depends_on=after, custom_timeouts=_SLOW),
        )

    def _security_group(
        self, name: str, vpc_id: pulumi.Input[str], clients: pulumi.Input[str]
    ) -> tuple[aws.ec2.SecurityGroup, list[pulumi.Resource]]:
        """File servers talk to each other and to the nodes, in both directions, and to nobody else."""
        label = f"{name}-lustre"
        child = pulumi.ResourceOptions(parent=self)
        group = aws.ec2.SecurityGroup(
            label, vpc_id=vpc_id, description="Lustre file servers", tags={"Name": label}, opts=child
        )
        ways = {
            "servers": (group.id, group.id),
            "from-clients": (group.id, clients),
            "to-clients": (clients, group.id),
        }
        rules: list[pulumi.Resource] = []
        for way, (owner, peer) in ways.items():
            for first, last in LUSTRE_PORTS:
                rules.append(
                    aws.vpc.SecurityGroupIngressRule(
                        f"{label}-{way}-{first}",
                        security_group_id=owner,
                        referenced_security_group_id=peer,
                        ip_protocol="tcp",
                        from_port=first,
                        to_port=last,
                        opts=child,
                    )
                )
        for way, peer in {"servers": group.id, "clients": clients}.items():
            for first, last in LUSTRE_PORTS:
                rules.append(
                    aws.vpc.SecurityGroupEgressRule(
                        f"{label}-{way}-{first}-out",
                        security_group_id=group.id,
                        referenced_security_group_id=peer,
                        ip_protocol="tcp",
                        from_port=first,
                        to_port=last,
                        opts=child,
                    )
                )
        return group, rules
