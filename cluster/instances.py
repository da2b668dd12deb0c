"""Facts about instance types. A new type is one more row.

Source: EC2's DescribeInstanceTypes, as recorded monthly by moto (a test compares every column), and for
`efa_on_card_0` the EFA chapter of the EC2 guide. EFA counts come from
EfaInfo.MaximumEfaInterfaces and not from the number of cards: a p6-b300 has 17 cards and 16 EFAs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InstanceType:
    """The facts of a type that launch templates, address plans and pods' resources depend on."""

    name: str
    vcpus: int
    memory_gib: int
    interfaces_on_card_0: int
    """The most network interfaces of network card 0. Pod addresses come from this card alone."""
    addresses_per_interface: int
    """IPv4 addresses of one interface, its primary one included."""
    network_cards: int = 1
    max_efa_interfaces: int = 0
    """The most EFA interfaces (efa or efa-only) that the type supports."""
    efa_on_card_0: bool = True
    gpus: int = 0
    gpu: str = ""
    gpu_memory_gib: int = 0
    instance_store_volumes: int = 0
    """NVMe SSDs of the instance, all of the same size."""
    instance_store_volume_gb: int = 0
    allocatable_memory_gib: int = 0
    """Memory that pods can request: without the shares of the kubelet, the kernel and EFA's huge pages."""

    @property
    def accelerated(self) -> bool:
        return self.gpus > 0

    @property
    def family(self) -> str:
        """p5 of p5.48xlarge."""
        return self.name.partition(".")[0]

    @property
    def allocatable_cpu_millicores(self) -> int:
        """Allocatable CPU in millicores on an EKS-optimized AMI.

        The kubelet reserves 6 % of the first core, 1 % of the second, 0.5 % of the next two and
        0.25 % of every other one (bootstrap of awslabs/amazon-eks-ami). p4de: 95690, p5: 191450.
        """
        cores = self.vcpus
        reserved = 60 * min(cores, 1) + 10 * min(max(cores - 1, 0), 1)
        reserved += 5 * min(max(cores - 2, 0), 2)
        return cores * 1000 - reserved - int(2.5 * max(cores - 4, 0))


def _p4(name: str, gpu_memory_gib: int) -> InstanceType:
    """Eight A100 behind four cards of 100 Gbit/s."""
    return InstanceType(
        name,
        vcpus=96,
        memory_gib=1152,
        interfaces_on_card_0=15,
        addresses_per_interface=50,
        network_cards=4,
        max_efa_interfaces=4,
        gpus=8,
        gpu="A100",
        gpu_memory_gib=gpu_memory_gib,
        instance_store_volumes=8,
        instance_store_volume_gb=1000,
        allocatable_memory_gib=1092,
    )


def _p5(
    name: str,
    gpu: str,
    gpu_memory_gib: int,
    *,
    network_cards: int,
    max_efa_interfaces: int,
    interfaces_on_card_0: int,
    efa_on_card_0: bool = True,
    memory_gib: int = 2048,
    allocatable_memory_gib: int = 1942,
) -> InstanceType:
    """Eight GPUs of a later generation; network cards and memory differ."""
    return InstanceType(
        name,
        vcpus=192,
        memory_gib=memory_gib,
        interfaces_on_card_0=interfaces_on_card_0,
        addresses_per_interface=50,
        network_cards=network_cards,
        max_efa_interfaces=max_efa_interfaces,
        efa_on_card_0=efa_on_card_0,
        gpus=8,
        gpu=gpu,
        gpu_memory_gib=gpu_memory_gib,
        instance_store_volumes=8,
        instance_store_volume_gb=3800,
        allocatable_memory_gib=allocatable_memory_gib,
    )


# Allocatable memory: 1146004920Ki seen on p4de and 2052371068Ki on p5, rounded down. Types of the same
# memory size get the smaller relative share of the two until it has been read from a node.
_TYPES = (
    _p4("p4d.24xlarge", 40),
    _p4("p4de.24xlarge", 80),
    _p5(
        "p5.48xlarge",
        "H100",
        80,
        network_cards=32,
        max_efa_interfaces=32,
        interfaces_on_card_0=2,
        allocatable_memory_gib=1957,
    ),
    _p5("p5e.48xlarge", "H200", 141, network_cards=32, max_efa_interfaces=32, interfaces_on_card_0=2),
    _p5("p5en.48xlarge", "H200", 141, network_cards=16, max_efa_interfaces=16, interfaces_on_card_0=4),
    _p5("p6-b200.48xlarge", "B200", 179, network_cards=8, max_efa_interfaces=8, interfaces_on_card_0=4),
    _p5(
        "p6-b300.48xlarge",
        "B300",
        268,
        network_cards=17,
        max_efa_interfaces=16,
        interfaces_on_card_0=4,
        efa_on_card_0=False,
        memory_gib=4096,
        allocatable_memory_gib=3885,
    ),
    # For the system node group (vCPUs, GiB, interfaces, addresses of each): no GPU, instance store or EFA.
    InstanceType("m6i.large", 2, 8, 3, 10),
    InstanceType("m6i.xlarge", 4, 16, 4, 15),
    InstanceType("m6i.2xlarge", 8, 32, 4, 15),
    InstanceType("m6i.4xlarge", 16, 64, 8, 30),
    InstanceType("m7i.large", 2, 8, 3, 10),
    InstanceType("m7i.xlarge", 4, 16, 4, 15),
    InstanceType("m7i.2xlarge", 8, 32, 4, 15),
    InstanceType("m7i.4xlarge", 16, 64, 8, 30),
)

INSTANCE_TYPES = {row.name: row for row in _TYPES}
ACCELERATED = tuple(row.name for row in _TYPES if row.accelerated)
SYSTEM = tuple(row.name for row in _TYPES if not row.accelerated)
