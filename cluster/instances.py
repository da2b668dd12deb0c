"""Facts about instance types. The next type is one more row.

Source: EC2's DescribeInstanceTypes, as moto's monthly dump of it repeats it (a test compares every
column), and for the EFA column of card 0 the EFA chapter of the EC2 guide. EFA counts come from
EfaInfo.MaximumEfaInterfaces and not from the number of cards: a p6-b300 has 17 cards and 16 EFAs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InstanceType:
    """What a launch template, an address plan and a pod's resources need to know of a type."""

    name: str
    vcpus: int
    memory_gib: int
    interfaces_on_card_0: int
    """How many network interfaces card 0 takes. Pod addresses come from this card alone."""
    addresses_per_interface: int
    """IPv4 addresses of one interface, its primary one included."""
    cards: int = 1
    efa: int = 0
    """The most EFA interfaces (efa or efa-only) the type takes."""
    efa_on_card_0: bool = True
    gpus: int = 0
    gpu: str = ""
    gpu_memory_gib: int = 0
    disks: int = 0
    """Local NVMe disks, all of the same size."""
    disk_gb: int = 0
    memory_for_pods_gib: int = 0
    """What is left for pods when the kubelet, the huge pages of EFA and the kernel have taken theirs."""

    @property
    def accelerated(self) -> bool:
        return self.gpus > 0

    @property
    def family(self) -> str:
        """p5 of p5.48xlarge."""
        return self.name.partition(".")[0]

    @property
    def cpu_for_pods(self) -> int:
        """Allocatable CPU in millicores on an EKS-optimized AMI.

        The kubelet keeps back 6 % of the first core, 1 % of the second, 0.5 % of the next two and
        0.25 % of every other one (bootstrap of awslabs/amazon-eks-ami). p4de: 95690, p5: 191450.
        """
        cores = self.vcpus
        kept = 60 * min(cores, 1) + 10 * min(max(cores - 1, 0), 1)
        kept += 5 * min(max(cores - 2, 0), 2)
        return cores * 1000 - kept - int(2.5 * max(cores - 4, 0))


def _p4(name: str, gpu_memory_gib: int) -> InstanceType:
    """Eight A100 behind four cards of 100 Gbit/s."""
    return InstanceType(
        name,
        vcpus=96,
        memory_gib=1152,
        interfaces_on_card_0=15,
        addresses_per_interface=50,
        cards=4,
        efa=4,
        gpus=8,
        gpu="A100",
        gpu_memory_gib=gpu_memory_gib,
        disks=8,
        disk_gb=1000,
        memory_for_pods_gib=1092,
    )


def _p5(
    name: str,
    gpu: str,
    gpu_memory_gib: int,
    *,
    cards: int,
    efa: int,
    interfaces_on_card_0: int,
    efa_on_card_0: bool = True,
    memory_gib: int = 2048,
    memory_for_pods_gib: int = 1942,
) -> InstanceType:
    """Eight GPUs of a later generation; the cards and the memory differ."""
    return InstanceType(
        name,
        vcpus=192,
        memory_gib=memory_gib,
        interfaces_on_card_0=interfaces_on_card_0,
        addresses_per_interface=50,
        cards=cards,
        efa=efa,
        efa_on_card_0=efa_on_card_0,
        gpus=8,
        gpu=gpu,
        gpu_memory_gib=gpu_memory_gib,
        disks=8,
        disk_gb=3800,
        memory_for_pods_gib=memory_for_pods_gib,
    )


# Memory for pods: 1146004920Ki seen on p4de and 2052371068Ki on p5, rounded down. Types of the same
# memory size take the smaller relative share of the two until somebody reads it off a node.
_TYPES = (
    _p4("p4d.24xlarge", 40),
    _p4("p4de.24xlarge", 80),
    _p5("p5.48xlarge", "H100", 80, cards=32, efa=32, interfaces_on_card_0=2, memory_for_pods_gib=1957),
    _p5("p5e.48xlarge", "H200", 141, cards=32, efa=32, interfaces_on_card_0=2),
    _p5("p5en.48xlarge", "H200", 141, cards=16, efa=16, interfaces_on_card_0=4),
    _p5("p6-b200.48xlarge", "B200", 179, cards=8, efa=8, interfaces_on_card_0=4),
    _p5(
        "p6-b300.48xlarge",
        "B300",
        268,
        cards=17,
        efa=16,
        interfaces_on_card_0=4,
        efa_on_card_0=False,
        memory_gib=4096,
        memory_for_pods_gib=3885,
    ),
    # For the system pool (vCPUs, GiB, interfaces, addresses of each): no GPU, no local disks, no EFA.
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
