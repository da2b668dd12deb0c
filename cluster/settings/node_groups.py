"""Node groups: one for the system's own pods, and any number with accelerators."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from cluster.instances import ACCELERATED, INSTANCE_TYPES, SYSTEM, InstanceType
from cluster.settings.base import Form, Section, ZoneId, invalid
from cluster.settings.capacity import Capacity
from cluster.settings.metadata import Labels, Tags, TaintKey, TaintValue

AmiReleaseVersion = Annotated[
    str,
    Form(
        r"1\.\d{2}\.\d{1,2}-20\d{6}",
        "the release version of an EKS-optimized AMI (Kubernetes patch and date)",
        "1.34.9-20260801",
    ),
]
MaxPods = Annotated[int, Field(ge=10, le=250)]


def _one_of(supported: tuple[str, ...], given: str) -> str:
    """The type, or an error that suggests only types of the same family: another one has other GPUs and prices."""
    if given in supported:
        return given
    family = given.partition(".")[0].lower()
    same = [name for name in supported if INSTANCE_TYPES[name].family == family]
    todo = (
        f"Did you mean {' or '.join(same)}?"
        if same
        else f"Supported: {', '.join(supported)} (cluster/instances.py)."
    )
    raise invalid(f"{given!r} is not a supported instance type for this node group", todo)


AcceleratedType = Annotated[
    str, AfterValidator(lambda given: _one_of(ACCELERATED, given)), Field(examples=["p5.48xlarge"])
]
SystemType = Annotated[
    str, AfterValidator(lambda given: _one_of(SYSTEM, given)), Field(examples=["m7i.xlarge"])
]


class Nodes(Section):
    """The scaling of a node group. `desired` applies when it is created; afterwards whoever scales it decides."""

    min: Annotated[int, Field(ge=0)] = 0
    desired: Annotated[int, Field(ge=0, examples=[2])]
    max: Annotated[int, Field(ge=1, examples=[4])]

    @model_validator(mode="after")
    def _ordered(self) -> Nodes:
        if not self.min <= self.desired <= self.max:
            raise invalid(
                f"min ≤ desired ≤ max does not hold for {self.min}, {self.desired}, {self.max}",
                "Such as {min: 0, desired: 2, max: 4}.",
            )
        return self


class SystemNodes(Nodes):
    """The scaling of the system node group. With no node CoreDNS and the operators run nowhere."""

    min: Annotated[int, Field(ge=1)] = 1


class RootVolume(Section):
    """The root volume, gp3. Images with CUDA are 15 to 25 GB each."""

    size_gib: Annotated[int, Field(ge=20, le=16384)] = 300
    iops: Annotated[int, Field(ge=3000, le=16000)] = 3000
    throughput_mib: Annotated[int, Field(ge=125, le=1000)] = 250


class Taint(Section):
    key: TaintKey
    value: TaintValue = ""
    effect: Literal["NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE"] = "NO_SCHEDULE"


class Efa(Section):
    """Elastic Fabric Adapter interfaces of each node."""

    interfaces: Annotated[int, Field(ge=0)] | None = None
    """None: as many as the instance type supports."""
    interface_type: Literal["efa-only", "efa"] = "efa-only"
    """efa-only interfaces have no IP address; efa ones use one each (32 a node on p5)."""


class _NodeGroup(Section):
    """What both kinds of node group have."""

    max_pods: MaxPods = 110
    ami_release_version: AmiReleaseVersion | None = None
    labels: Labels = Field(default_factory=dict)
    tags: Tags = Field(default_factory=dict)


class SystemNodeGroupSettings(_NodeGroup):
    """CPU nodes for CoreDNS, operators and Prometheus, spread over all zones of the network."""

    instance_type: SystemType = "m7i.xlarge"
    nodes: SystemNodes
    root_volume: RootVolume = RootVolume(size_gib=80, throughput_mib=125)

    efa: ClassVar[Efa] = Efa(interfaces=0)
    efa_interfaces: ClassVar[int] = 0

    @property
    def instance(self) -> InstanceType:
        return INSTANCE_TYPES[self.instance_type]


class NodeGroupSettings(_NodeGroup):
    """Nodes with GPUs, all in one zone, with a launch template of their own."""

    instance_type: AcceleratedType
    zone: ZoneId
    nodes: Nodes
    capacity: Annotated[Capacity, Field(examples=[{"kind": "odcr", "create": {"nodes": 16}}])]
    efa: Efa = Efa()
    placement_group: bool = False
    """Create a cluster placement group. With a reservation, only if the reservation is created here."""
    root_volume: RootVolume = RootVolume()
    taints: tuple[Taint, ...] = ()
    """Beside nvidia.com/gpu, which every accelerated node has."""

    @model_validator(mode="after")
    def _distinct_taints(self) -> NodeGroupSettings:
        """Kubernetes refuses two taints of one key and effect (node validation, "taints must be unique")."""
        seen = [("nvidia.com/gpu", "NO_SCHEDULE"), *((taint.key, taint.effect) for taint in self.taints)]
        for key, effect in seen:
            if seen.count((key, effect)) > 1:
                raise invalid(
                    f"the taint {key} with effect {effect} is there twice, nvidia.com/gpu of every node included",
                    "Keep one of them.",
                    key="taints",
                )
        return self

    @property
    def instance(self) -> InstanceType:
        return INSTANCE_TYPES[self.instance_type]

    @property
    def efa_interfaces(self) -> int:
        """EFA interfaces of each node."""
        given = self.efa.interfaces
        return self.instance.max_efa_interfaces if given is None else given
