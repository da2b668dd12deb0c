"""What NCCL's log (NCCL_DEBUG=INFO, subsystems INIT and NET) says of the network that it uses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_PROVIDER = re.compile(r"NET/OFI selected provider is (?P<provider>[\w-]+)", re.IGNORECASE)
_PLUGIN = re.compile(r"NET/OFI Initializing aws-ofi-nccl (?:git-)?v?(?P<version>[\w.]+)", re.IGNORECASE)
_LIBFABRIC = re.compile(r"NET/OFI Using libfabric version (?P<version>[\d.]+)", re.IGNORECASE)
_NCCL = re.compile(r"NCCL version (?P<version>[\d.]+)")
_SOCKET = re.compile(r"Using network Socket|via NET/Socket/", re.IGNORECASE)
_CHANNEL = re.compile(r"via NET/(?P<network>[^/]+)/\d+(?:\(\d+\))?(?P<direct>/GDRDMA)?")


@dataclass(frozen=True)
class Network:
    """How one process reaches others on other nodes. None: the log doesn't say."""

    nccl: str | None
    plugin: str | None
    """aws-ofi-nccl."""
    libfabric: str | None
    provider: str | None
    """Of libfabric: `efa` on EFA."""
    sockets: bool
    """TCP is used."""
    channels: int
    """Connections to other nodes."""
    direct: int
    """Those of them with GPUDirect RDMA."""

    def problems(self) -> list[str]:
        """What is wrong with it on a node that has EFA."""
        found = []
        if self.plugin is None:
            found.append("NCCL did not load aws-ofi-nccl")
        if self.provider is not None and not self.provider.startswith("efa"):
            found.append(f"libfabric chose {self.provider} instead of efa")
        if self.sockets:
            found.append("NCCL talks TCP between nodes")
        if self.channels > self.direct and not self.sockets:
            found.append(f"{self.channels - self.direct} of {self.channels} channels lack GPUDirect RDMA")
        return found


def read(lines: Iterable[str]) -> Network:
    found: dict[str, str] = {}
    sockets, channels, direct = False, 0, 0
    for line in lines:
        for name, pattern in (
            ("nccl", _NCCL),
            ("plugin", _PLUGIN),
            ("libfabric", _LIBFABRIC),
            ("provider", _PROVIDER),
        ):
            if match := pattern.search(line):
                found.setdefault(name, match[1])
        sockets = sockets or bool(_SOCKET.search(line))
        if match := _CHANNEL.search(line):
            channels += 1
            direct += match["direct"] is not None
    return Network(
        found.get("nccl"),
        found.get("plugin"),
        found.get("libfabric"),
        found.get("provider"),
        sockets,
        channels,
        direct,
    )
