"""Buckets, Lustre, images, keys, roles, secrets, budget and capacity: one of each."""

from __future__ import annotations

import json

import pulumi
import pulumi_aws as aws

provider = aws.Provider("aws", region="us-east-1", default_tags={"tags": {"project": "storage"}})
opts = pulumi.ResourceOptions(provider=provider)


def policy(action: str, resource: str, principal: dict[str, str] | None = None) -> str:
    whom = {"Principal": principal} if principal else {"Resource": resource}
    statement = {"Effect": "Allow", "Action": [action], **whom}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


# S3

bucket = aws.s3.Bucket("data", bucket_prefix="data-", force_destroy=True, tags={"Name": "data"}, opts=opts)
aws.s3.BucketOwnershipControls(
    "data", bucket=bucket.bucket, rule={"object_ownership": "BucketOwnerEnforced"}, opts=opts
)
block = aws.s3.BucketPublicAccessBlock(
    "data",
    bucket=bucket.bucket,
    block_public_acls=True,
    block_public_policy=True,
    ignore_public_acls=True,
    restrict_public_buckets=True,
    opts=opts,
)
aws.s3.BucketServerSideEncryptionConfiguration(
    "data",
    bucket=bucket.bucket,
    rules=[{"apply_server_side_encryption_by_default": {"sse_algorithm": "AES256"}}],
    opts=opts,
)
versioning = aws.s3.BucketVersioning(
    "data", bucket=bucket.bucket, versioning_configuration={"status": "Enabled"}, opts=opts
)
aws.s3.BucketLifecycleConfiguration(
    "data",
    bucket=bucket.bucket,
    rules=[
        {
            "id": "leftovers",
            "status": "Enabled",
            "filter": {"prefix": ""},
            "abort_incomplete_multipart_upload": {"days_after_initiation": 3},
            "noncurrent_version_expiration": {"noncurrent_days": 7},
        },
        {"id": "age", "status": "Enabled", "filter": {"prefix": ""}, "expiration": {"days": 30}},
    ],
    opts=pulumi.ResourceOptions(provider=provider, depends_on=[versioning]),
)
aws.s3.BucketPolicy(
    "data",
    bucket=bucket.bucket,
    policy=bucket.arn.apply(
        lambda arn: json.dumps(
            {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Deny",
                        "Principal": "*",
                        "Action": "s3:PutObjectAcl",
                        "Resource": [arn, f"{arn}/*"],
                        "Condition": {"Bool": {"aws:PrincipalIsAWSService": "false"}},
                    }
                ],
            }
        )
    ),
    opts=pulumi.ResourceOptions(provider=provider, depends_on=[block]),
)

# FSx

vpc = aws.ec2.Vpc("vpc", cidr_block="10.60.0.0/16", opts=opts)
subnet = aws.ec2.Subnet(
    "lustre", vpc_id=vpc.id, cidr_block="10.60.1.0/24", availability_zone_id="use1-az1", opts=opts
)
group = aws.ec2.SecurityGroup("lustre", vpc_id=vpc.id, description="Lustre", opts=opts)
rules = [
    rule(
        f"lustre-{way}-{first}",
        security_group_id=group.id,
        referenced_security_group_id=group.id,
        ip_protocol="tcp",
        from_port=first,
        to_port=last,
        opts=opts,
    )
    for way, rule in (("in", aws.vpc.SecurityGroupIngressRule), ("out", aws.vpc.SecurityGroupEgressRule))
    for first, last in ((988, 988), (1018, 1023))
]
lustre = aws.fsx.LustreFileSystem(
    "lustre",
    deployment_type="PERSISTENT_2",
    storage_type="SSD",
    storage_capacity=1200,
    per_unit_storage_throughput=125,
    file_system_type_version="2.15",
    data_compression_type="LZ4",
    subnet_ids=subnet.id,
    security_group_ids=[group.id],
    automatic_backup_retention_days=0,
    skip_final_backup=True,
    tags={"Name": "lustre"},
    opts=pulumi.ResourceOptions(provider=provider, depends_on=rules),
)
association = aws.fsx.DataRepositoryAssociation(
    "data",
    file_system_id=lustre.id,
    file_system_path="/data",
    data_repository_path=bucket.bucket.apply(lambda name: f"s3://{name}"),
    batch_import_meta_data_on_create=True,
    s3={"auto_import_policy": {"events": ["NEW", "CHANGED", "DELETED"]}},
    opts=opts,
)

# ECR

repository = aws.ecr.Repository(
    "trainer",
    name="storage/trainer",
    image_tag_mutability="IMMUTABLE",
    image_scanning_configuration={"scan_on_push": True},
    force_delete=True,
    opts=opts,
)
expire = {
    "rulePriority": 1,
    "selection": {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": 5},
    "action": {"type": "expire"},
}
aws.ecr.LifecyclePolicy(
    "trainer", repository=repository.name, policy=json.dumps({"rules": [expire]}), opts=opts
)
aws.ecr.RepositoryPolicy(
    "trainer",
    repository=repository.name,
    policy=policy("ecr:BatchGetImage", "", {"AWS": "arn:aws:iam::123456789012:root"}),
    opts=opts,
)

# IAM and KMS

role = aws.iam.Role(
    "role",
    name_prefix="storage-",
    description="a role",
    assume_role_policy=policy("sts:AssumeRole", "", {"Service": "ec2.amazonaws.com"}),
    max_session_duration=12 * 3600,
    tags={"Name": "role"},
    opts=opts,
)
managed = aws.iam.Policy("policy", policy=policy("s3:ListAllMyBuckets", "*"), opts=opts)
aws.iam.RolePolicyAttachment("attached", role=role.name, policy_arn=managed.arn, opts=opts)
aws.iam.RolePolicy("inline", role=role.id, policy=policy("s3:GetObject", "*"), opts=opts)
aws.iam.InstanceProfile("profile", role=role.name, opts=opts)
key = aws.kms.Key("key", description="a key", enable_key_rotation=True, deletion_window_in_days=7, opts=opts)
aws.kms.Alias("key", name="alias/storage", target_key_id=key.key_id, opts=opts)

# Secrets, logs, notices, budget

secret = aws.secretsmanager.Secret("secret", recovery_window_in_days=0, opts=opts)
aws.secretsmanager.SecretVersion("secret", secret_id=secret.id, secret_string="very-secret-indeed", opts=opts)
logs = aws.cloudwatch.LogGroup("logs", name="/storage/logs", retention_in_days=7, opts=opts)
aws.sns.Topic("topic", display_name="Notices", opts=opts)
aws.budgets.Budget(
    "budget",
    budget_type="COST",
    time_unit="MONTHLY",
    limit_amount="1000",
    limit_unit="USD",
    cost_filters=[{"name": "TagKeyValue", "values": ["user:project$storage"]}],
    notifications=[
        {
            "comparison_operator": "GREATER_THAN",
            "notification_type": "ACTUAL",
            "threshold": 80,
            "threshold_type": "PERCENTAGE",
            "subscriber_email_addresses": ["someone@example.com"],
        }
    ],
    opts=opts,
)

# Capacity

placement = aws.ec2.PlacementGroup(
    "group", name="storage-group", strategy="cluster", tags={"Name": "g"}, opts=opts
)
reservation = aws.ec2.CapacityReservation(
    "reservation",
    instance_type="p5.48xlarge",
    instance_platform="Linux/UNIX",
    availability_zone=subnet.availability_zone,
    instance_count=2,
    instance_match_criteria="targeted",
    end_date_type="unlimited",
    placement_group_arn=placement.arn,
    opts=opts,
)

pulumi.export("bucket", bucket.bucket)
pulumi.export("mount", lustre.mount_name)
pulumi.export("repository", repository.repository_url)
pulumi.export("reservation", reservation.id)
pulumi.export("secret", secret.arn)
