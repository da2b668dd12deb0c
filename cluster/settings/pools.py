"""Node pools: one for the system's own pods, and any number with accelerators."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cluster.settings.base import Section, ZoneId, form
from cluster.settings.capacity import Capacity

AmiRelease = Annotated[str, form(r"^1\.\d{2}\.\d{1,2}-20\d{6}$", "1.34.9-20260801")]
"""Release version of an EKS-optimized AMI: Kubernetes patch and date, such as 1.34.9-20260801."""
Labels = dict[str, str]


class Nodes(Section):
    """Bounds of a pool. `desired` counts when the pool is created; from then on it belongs to whoever scales it."""

    min: Annotated[int, Field(ge=0)] = 0
    desired: Annotated[int, Field(ge=0)]
    max: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _ordered(self) -> Nodes:
        if not self.min <= self.desired <= self.max:
            raise ValueError(f"min ≤ desired ≤ max does not hold for {self.min}, {self.desired}, {self.max}")
        return self


class Disk(Section):
    """The root volume, gp3. Images with CUDA are 15 to 25 GB each."""

    size_gib: Annotated[int, Field(ge=20, le=16384)] = 300
    iops: Annotated[int, Field(ge=3000, le=16000)] = 3000
    throughput_mib: Annotated[int, Field(ge=125, le=1000)] = 250


class Taint(Section):
    key: str
    value: str = ""
    effect: Literal["NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE"] = "NO_SCHEDULE"


class SystemPool(Section):
    """CPU nodes for CoreDNS, operators and Prometheus, spread over all zones of the network."""

    instance_type: str = "m7i.xlarge"
    nodes: Nodes
    disk: Disk = Disk(size_gib=80, throughput_mib=125)
    max_pods: Annotated[int, Field(ge=10, le=250)] = 110
    ami_release: AmiRelease | None = None
    labels: Labels = Field(default_factory=dict)
    tags: Labels = Field(default_factory=dict)


class Efa(Section):
    """Elastic Fabric Adapter interfaces of each node."""

    interfaces: Annotated[int, Field(ge=0)] | None = None
    """None: as many as the type has."""
    layout: Literal["efa-only", "efa"] = "efa-only"
    """efa-only interfaces take no IP address; efa ones take one each (32 a node on p5)."""


class AcceleratedPool(Section):
    """Nodes with GPUs, all in one zone, behind a launch template of ours."""

    instance_type: str
    zone: ZoneId
    nodes: Nodes
    capacity: Capacity
    efa: Efa = Efa()
    placement_group: bool = False
    """Make a cluster placement group for the pool. With a reservation, only if it is created here."""
    disk: Disk = Disk()
    max_pods: Annotated[int, Field(ge=10, le=250)] = 110
    ami_release: AmiRelease | None = None
    labels: Labels = Field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    """Beside nvidia.com/gpu, which every accelerated node has."""
    tags: Labels = Field(default_factory=dict)
