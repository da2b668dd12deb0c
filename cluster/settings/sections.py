"""The sections of a stack file, one class each, in the order in which the program uses them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cluster.settings.base import (
    Cidr,
    Image,
    LogDays,
    Name,
    PinnedImage,
    PrincipalArn,
    PrivateCidr,
    Quantity,
    Section,
    ZoneId,
    form,
)
from cluster.settings.pools import AmiRelease

AddonVersion = Annotated[str, form(r"^v\d+\.\d+\.\d+-eksbuild\.\d+$", "v1.22.4-eksbuild.3")]
"""Such as v1.22.4-eksbuild.3, as `aws eks describe-addon-versions` lists them."""
Endpoint = Literal[
    "autoscaling",
    "ec2",
    "ec2messages",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    "elasticloadbalancing",
    "fsx",
    "kms",
    "logs",
    "monitoring",
    "secretsmanager",
    "ssm",
    "ssmmessages",
    "sts",
]
MOUNT_PATH = "/fsx"
"""Where every training pod finds the file system."""
INTERFACE_ENDPOINTS: tuple[Endpoint, ...] = ("ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "logs", "sts")
"""What nodes and pods call all day. A gateway endpoint for S3 is always made; it costs nothing."""


class Network(Section):
    cidr: PrivateCidr
    zones: Annotated[tuple[ZoneId, ...], Field(min_length=2, max_length=3)]
    """By id. Append new ones at the end: each one's subnet is counted off by its place in the list."""
    nat: Literal["single", "per-zone"] = "single"
    interface_endpoints: tuple[Endpoint, ...] = INTERFACE_ENDPOINTS
    flow_log_days: LogDays = 14
    avoid: tuple[Cidr, ...] = ()
    """Networks elsewhere (offices, peers) that this one must not overlap."""


class Addons(Section):
    """Pinned versions of the EKS add-ons that every cluster gets."""

    vpc_cni: Annotated[AddonVersion, Field(alias="vpc-cni")]
    kube_proxy: Annotated[AddonVersion, Field(alias="kube-proxy")]
    coredns: AddonVersion
    pod_identity_agent: Annotated[AddonVersion, Field(alias="eks-pod-identity-agent")]
    fsx_csi_driver: Annotated[AddonVersion, Field(alias="aws-fsx-csi-driver")]

    def by_name(self) -> dict[str, str]:
        return self.model_dump(by_alias=True)


class Kubernetes(Section):
    version: Annotated[str, form(r"^1\.\d{2}$", '"1.34"')]
    ami_release: AmiRelease
    """Release of the EKS-optimized AMIs for all pools; a pool may name another."""
    addons: Addons
    service_cidr: PrivateCidr = "172.20.0.0/16"
    prefix_delegation: bool = True
    """Pod addresses in blocks of 16: a p5 has one interface for pods, so 50 addresses without it."""
    public_access: tuple[Cidr, ...] = ()
    """Networks that reach the API server from the internet. Empty: only from inside the VPC."""
    logs: tuple[Literal["api", "audit", "authenticator", "controllerManager", "scheduler"], ...] = (
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    )
    log_days: LogDays = 30
    deletion_protection: bool = False


class Access(Section):
    """Who may take on which persona's role. Empty: nobody but administrators of the account."""

    admins: tuple[PrincipalArn, ...] = ()
    trainers: tuple[PrincipalArn, ...] = ()
    viewers: tuple[PrincipalArn, ...] = ()
    ci: tuple[PrincipalArn, ...] = ()


class FileSystem(Section):
    """FSx for Lustre, PERSISTENT_2 on SSD."""

    zone: ZoneId
    capacity_gib: Annotated[int, Field(ge=1200)]
    throughput: Literal[125, 250, 500, 1000] = 250
    """MB/s for each TiB of capacity."""

    @model_validator(mode="after")
    def _sold_in_these_sizes(self) -> FileSystem:
        if self.capacity_gib != 1200 and self.capacity_gib % 2400:
            raise ValueError(f"capacity is 1200 GiB or a multiple of 2400, not {self.capacity_gib}")
        return self


class Storage(Section):
    file_system: FileSystem
    delete_data: bool = False
    """Delete the buckets and the image repository, with all that is in them, when the stack is destroyed.
    False: they are kept, and go on being billed."""
    checkpoint_days: Annotated[int, Field(ge=1)] | None = None
    """Delete checkpoints from S3 after so many days. None: never."""


class TrainerImage(Section):
    """Built from this repository, or a finished one by digest."""

    base: Image | None = None
    reference: PinnedImage | None = None
    build_arguments: dict[str, str] = Field(default_factory=dict)
    keep: Annotated[int, Field(ge=1)] = 20
    """How many images the repository keeps."""

    @model_validator(mode="after")
    def _one_source(self) -> TrainerImage:
        if (self.base is None) == (self.reference is None):
            raise ValueError("give either base (build here) or reference (a finished image by digest)")
        if self.reference is not None and "@sha256:" not in self.reference:
            raise ValueError("reference is by digest (name@sha256:…), never by tag")
        return self


class Workers(Section):
    """A job runs on min to max workers; one worker is one pod."""

    min: Annotated[int, Field(ge=1)]
    max: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _ordered(self) -> Workers:
        if self.min > self.max:
            raise ValueError(f"min ≤ max does not hold for {self.min}, {self.max}")
        return self


class WorkerResources(Section):
    """What one worker asks for, where it differs from a whole node of its pool."""

    cpu: Quantity | None = None
    memory: Quantity | None = None
    gpu: Annotated[int, Field(ge=0)] | None = None
    efa: Annotated[int, Field(ge=0)] | None = None
    huge_pages: Quantity | None = None
    shared_memory: Quantity | None = None


class Job(Section):
    """A training job that exists as long as the stack does."""

    config: str
    """The trainer's own configuration, a file path relative to the stack file."""
    pool: Name
    workers: Workers
    processes_per_worker: Annotated[int, Field(ge=1)] | None = None
    """None: one for each GPU of the worker."""
    max_restarts: Annotated[int, Field(ge=0)] = 10
    resources: WorkerResources = WorkerResources()
    environment: dict[str, str] = Field(default_factory=dict)


class Preparation(Section):
    """Texts that become token shards on the cluster, by `trainer.data.prepare` in as many pods as there are parts."""

    source: str
    """Folder or `s3://bucket/prefix` of the texts."""
    output: Annotated[str, Field(pattern=r"^(/|s3://)")]
    """Folder or `s3://bucket/prefix` for the shards."""
    tokenizer: str = "byt5"
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.05
    parts: Annotated[int, Field(ge=1)]
    parallel: Annotated[int, Field(ge=1)] | None = None
    """Pods at a time; None: all parts."""
    workers: Annotated[int, Field(ge=1)] = 2
    """Processes of a pod, one core each."""
    memory: Quantity = "8Gi"
    """Of a pod. A worker holds a shard of 64 Mi tokens a few times: 1 to 2 GiB."""
    options: tuple[str, ...] = ()
    """Further options of `trainer.data.prepare`, such as --deduplicate."""


class Training(Section):
    namespace: Name = "training"
    jobs: dict[Name, Job] = Field(default_factory=dict)
    preparations: dict[Name, Preparation] = Field(default_factory=dict)


class Prometheus(Section):
    retention: Annotated[str, form(r"^\d+[hdw]$", "15d")] = "15d"
    memory: Quantity = "2Gi"
    disk: Quantity = "20Gi"


class Observability(Section):
    prometheus: Prometheus = Prometheus()
