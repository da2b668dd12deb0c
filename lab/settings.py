"""Where the lab keeps things and where it listens: the one place for paths, ports and subnets.

Every other module of the lab takes a `Lab`; nothing else reads the environment.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

LOOPBACK = "127.0.0.1"
ACCOUNT = "123456789012"
"""The emulator's account number (moto's own default)."""


@dataclass(frozen=True)
class Lab:
    """One lab: its name, its folders, its ports and its bridge.

    Only one lab with real nodes runs on a machine at a time (a lock sees to it), so ports and
    subnets are fixed; `port_base` moves all ports together when something else holds them.
    """

    name: str
    cache: Path
    state: Path
    port_base: int = 14000
    machine: Path = Path("/run/shardyard")
    """What all labs of this machine share: the lock, and which lab runs."""
    aws_wait_factor: str = "0.02"
    """Multiplies the waits of the AWS plugin (lab/toolchain/pulumi-aws/waits.go.slim). 1 is what it does on AWS,
    where it waits ten minutes before it first looks at a file system that is being deleted."""

    @classmethod
    def from_environment(cls, name: str | None = None) -> Lab:
        """Read SHARDYARD_LAB, _CACHE, _STATE, _PORT_BASE, _MACHINE and _AWS_WAIT_FACTOR."""
        name = name or os.environ.get("SHARDYARD_LAB", "local")
        cache = Path(os.environ.get("SHARDYARD_CACHE", Path.home() / ".cache/shardyard"))
        states = Path(os.environ.get("SHARDYARD_STATE", Path.home() / ".local/state/shardyard"))
        base = int(os.environ.get("SHARDYARD_PORT_BASE", cls.port_base))
        own = cls.machine if os.geteuid() == 0 else Path(f"/tmp/shardyard-{os.getuid()}")
        machine = Path(os.environ.get("SHARDYARD_MACHINE", own))
        factor = os.environ.get("SHARDYARD_AWS_WAIT_FACTOR", cls.aws_wait_factor)
        return cls(name, cache, states / name, base, machine, factor)

    # Folders

    @property
    def bin(self) -> Path:
        """The toolchain's programs (pulumi, kube-apiserver, kwok, …)."""
        return self.cache / "bin"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def run(self) -> Path:
        """One JSON file per process that the lab started (see lab.processes)."""
        return self.state / "run"

    @property
    def file_systems(self) -> Path:
        """FSx for Lustre: one folder per file system id, mounted by the CSI driver."""
        return self.state / "fsx"

    # Addresses

    @property
    def aws_port(self) -> int:
        return self.port_base + 566

    @property
    def aws_endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.aws_port}"

    @property
    def registry_port(self) -> int:
        return self.port_base + 500

    @property
    def registry(self) -> str:
        """The host part of every image that the lab serves, ECR's included."""
        return f"localhost:{self.registry_port}"

    def cluster_ports(self, slot: int) -> range:
        """Ten ports for the control plane in the given slot (0, 1, …): API server first."""
        start = self.port_base + 1000 + 10 * slot
        return range(start, start + 10)

    # The bridge that joins control plane and real nodes

    bridge = "shardyard0"
    network = IPv4Network("10.210.0.0/24")
    pod_network = IPv4Network("10.211.0.0/16")
    """Real node n has the n-th /24 of it."""
    service_network = IPv4Network("172.20.0.0/16")
    """EKS's own default, and so is its DNS address (the tenth)."""

    @property
    def gateway(self) -> IPv4Address:
        """The bridge's address on the host: API servers listen here, and the registry too."""
        return self.network[1]
