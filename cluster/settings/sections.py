"""The sections of a stack file, one class each, in the order in which the program uses them."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from cluster import addressing
from cluster.settings.base import (
    Cidr,
    Form,
    Image,
    LogRetentionDays,
    Name,
    PinnedImage,
    PrincipalArn,
    PrivateCidr,
    Quantity,
    Section,
    ZoneId,
    invalid,
    is_pinned,
)
from cluster.settings.metadata import EnvironmentName
from cluster.settings.node_groups import AmiReleaseVersion, NodeGroupSettings

AddonVersion = Annotated[
    str,
    Form(
        r"v\d+\.\d+\.\d+-eksbuild\.\d+",
        "the version of an add-on (aws eks describe-addon-versions)",
        "v1.22.4-eksbuild.3",
    ),
]
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
"""Mount path of the file system in training pods."""
INTERFACE_ENDPOINTS: tuple[Endpoint, ...] = ("ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "logs", "sts")
"""Services that nodes and pods call continuously. The gateway endpoint of S3 is free and always created."""


_UNROUTABLE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
"""Private networks (RFC 1918), shared addresses (RFC 6598) and link-local ones (RFC 3927)."""


def _public_network(text: str) -> str:
    for unroutable in map(IPv4Network, _UNROUTABLE):
        if IPv4Network(text).subnet_of(unroutable):
            raise invalid(
                f"{text} is in {unroutable}, and EKS sees the public address of a caller from there",
                "Name the public addresses behind which it is, such as 203.0.113.0/24. From inside the VPC the "
                "API server is always reachable.",
            )
    return text


PublicCidr = Annotated[Cidr, AfterValidator(_public_network), Field(examples=["203.0.113.0/24"])]


class NetworkSettings(Section):
    cidr: PrivateCidr
    zones: Annotated[
        tuple[ZoneId, ...], Field(min_length=2, max_length=3, examples=[["use1-az4", "use1-az6"]])
    ]
    """By id. Append new ones at the end: the order decides each one's subnets."""
    nat_gateways: Literal["single", "per-zone"] = "single"
    interface_endpoints: tuple[Endpoint, ...] = INTERFACE_ENDPOINTS
    flow_log_retention_days: LogRetentionDays = 14
    reserved_cidrs: tuple[Cidr, ...] = ()
    """Networks elsewhere (offices, peered VPCs) that this one must not overlap."""

    @model_validator(mode="after")
    def _can_be_divided(self) -> NetworkSettings:
        try:
            addressing.plan(self.cidr, len(self.zones))
        except ValueError as error:
            raise invalid(str(error), "Such as 10.30.0.0/16.", key="cidr") from None
        return self

    @property
    def address_plan(self) -> addressing.AddressPlan:
        """The subnets of the zones."""
        return addressing.plan(self.cidr, len(self.zones))


class Addons(Section):
    """Pinned versions of the EKS add-ons that every cluster gets."""

    vpc_cni: Annotated[AddonVersion, Field(alias="vpc-cni")]
    kube_proxy: Annotated[AddonVersion, Field(alias="kube-proxy")]
    coredns: AddonVersion
    pod_identity_agent: Annotated[AddonVersion, Field(alias="eks-pod-identity-agent")]
    fsx_csi_driver: Annotated[AddonVersion, Field(alias="aws-fsx-csi-driver")]

    def by_name(self) -> dict[str, str]:
        return self.model_dump(by_alias=True)


class KubernetesSettings(Section):
    version: Annotated[str, Form(r"1\.\d{2}", "a version of Kubernetes, in quotes", '"1.34"')]
    ami_release_version: AmiReleaseVersion
    """Of all node groups; a node group may have another."""
    addons: Addons
    service_cidr: PrivateCidr = "172.20.0.0/16"
    prefix_delegation: bool = True
    """Pod addresses in blocks of 16: a p5 has one interface for pods, so 50 addresses without it."""
    public_access_cidrs: Annotated[tuple[PublicCidr, ...], Field(max_length=40)] = ()
    """Networks that reach the API server from the internet, at most 40 (EKS quota "Public endpoint access
    CIDR ranges per cluster"). Empty: only from inside the VPC."""
    log_types: tuple[Literal["api", "audit", "authenticator", "controllerManager", "scheduler"], ...] = (
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    )
    log_retention_days: LogRetentionDays = 30
    deletion_protection: bool = False


class Access(Section):
    """IAM principals that may assume a persona's role. Empty: whoever the account's administrators allow."""

    admins: tuple[PrincipalArn, ...] = ()
    trainers: tuple[PrincipalArn, ...] = ()
    viewers: tuple[PrincipalArn, ...] = ()
    ci: tuple[PrincipalArn, ...] = ()


class FileSystemSettings(Section):
    """FSx for Lustre, PERSISTENT_2 on SSD."""

    zone: ZoneId
    capacity_gib: Annotated[int, Field(ge=1200)]
    per_unit_storage_throughput: Literal[125, 250, 500, 1000] = 250
    """MB/s for each TiB of capacity."""

    @model_validator(mode="after")
    def _has_a_size_of_fsx(self) -> FileSystemSettings:
        if self.capacity_gib != 1200 and self.capacity_gib % 2400:
            raise invalid(
                f"{self.capacity_gib} GiB is neither 1200 nor a multiple of 2400",
                f"Write {max(1, round(self.capacity_gib / 2400)) * 2400}.",
                key="capacityGib",
            )
        return self


class Storage(Section):
    file_system: FileSystemSettings
    delete_data: bool = False
    """Delete the buckets and the image repository, with all that is in them, when the stack is destroyed.
    False: they are kept, and go on being billed."""
    checkpoint_expiration_days: Annotated[int, Field(ge=1)] | None = None
    """Delete checkpoints from S3 after so many days. None: never."""


class TrainerImage(Section):
    """Built from this repository, or an existing one by digest."""

    base: Image | None = None
    reference: PinnedImage | None = None
    build_args: dict[str, str] = Field(default_factory=dict)
    keep: Annotated[int, Field(ge=1)] = 20
    """How many images the repository keeps."""

    @model_validator(mode="after")
    def _one_source(self) -> TrainerImage:
        if (self.base is None) == (self.reference is None):
            raise invalid(
                "give either base (build here) or reference (an existing image)",
                "Such as {reference: name@sha256:…}, or {base: name@sha256:…}.",
            )
        if self.reference is not None and not is_pinned(self.reference):
            raise invalid(
                f"{self.reference!r} is not pinned by digest", "Write name@sha256:….", key="reference"
            )
        return self


class Workers(Section):
    """The numbers of workers that a job runs with; a worker is a pod."""

    min: Annotated[int, Field(ge=1, examples=[16])]
    max: Annotated[int, Field(ge=1, examples=[16])]

    @model_validator(mode="after")
    def _ordered(self) -> Workers:
        if self.min > self.max:
            raise invalid(
                f"min ≤ max does not hold for {self.min}, {self.max}", "Such as {min: 16, max: 16}."
            )
        return self


class WorkerResources(Section):
    """Resource requests of one worker, where they differ from a whole node of its node group."""

    cpu: Quantity | None = None
    memory: Quantity | None = None
    gpu: Annotated[int, Field(ge=0)] | None = None
    efa: Annotated[int, Field(ge=0)] | None = None
    huge_pages: Quantity | None = None
    shared_memory: Quantity | None = None

    def gpus_on(self, node_group: NodeGroupSettings) -> int:
        """GPUs of one worker: by default all of a node."""
        return node_group.instance.gpus if self.gpu is None else self.gpu

    def share_of(self, node_group: NodeGroupSettings) -> float:
        """The worker's share of a node, by its GPUs. A worker without GPUs has the whole node."""
        return self.gpus_on(node_group) / node_group.instance.gpus or 1.0

    def efa_on(self, node_group: NodeGroupSettings) -> int:
        """EFA interfaces of one worker: by default the same share of a node's as of its GPUs."""
        return int(node_group.efa_interfaces * self.share_of(node_group)) if self.efa is None else self.efa


class Job(Section):
    """A training job that exists as long as the stack does."""

    config: Annotated[str, Field(examples=["jobs/llama2-7b.yaml"])]
    """The job file, which the trainer reads, by its path relative to the stack file."""
    node_group: Name
    workers: Workers
    processes_per_worker: Annotated[int, Field(ge=1)] | None = None
    """None: one for each GPU of the worker."""
    max_restarts: Annotated[int, Field(ge=0)] = 10
    resources: WorkerResources = WorkerResources()
    environment: dict[EnvironmentName, str] = Field(default_factory=dict)


class DataPreparationJob(Section):
    """An Indexed Job that turns texts into token shards by `trainer.data.prepare`, one pod for each part."""

    source: Annotated[str, Field(examples=["/fsx/data/texts"])]
    """Folder or `s3://bucket/prefix` of the texts."""
    output: Annotated[str, Form(r"(/|s3://).*", "a folder or s3://bucket/prefix", "/fsx/data/corpus")]
    """Folder or `s3://bucket/prefix` for the shards."""
    tokenizer: str = "byt5"
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.05
    parts: Annotated[int, Field(ge=1, examples=[16])]
    parallelism: Annotated[int, Field(ge=1)] | None = None
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
    data_preparation_jobs: dict[Name, DataPreparationJob] = Field(default_factory=dict)


class PrometheusSettings(Section):
    retention: Annotated[str, Form(r"\d+[hdw]", "a duration in hours, days or weeks", "15d")] = "15d"
    memory: Quantity = "2Gi"
    disk: Quantity = "20Gi"


class Observability(Section):
    prometheus: PrometheusSettings = PrometheusSettings()
