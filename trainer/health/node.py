"""What a node says of itself before anything uses its GPUs.

No CUDA context, no NCCL: nothing that a broken device holds up for longer than `devices.ask` waits.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainer.health.devices import Device, Fault, ask, faults

DRIVER = Path("/dev/nvidiactl")
"""There where a driver is loaded and given to this container."""


@dataclass(frozen=True)
class Node:
    host: str
    processes: int
    """Of the job, on this node; each needs a GPU of its own where there are any."""
    devices: list[Device] = field(default_factory=list)
    faults: list[Fault] | None = None
    """None: the kernel's log cannot be read here."""
    error: str = ""
    """Why the driver could not be asked."""

    def facts(self) -> dict[str, Any]:
        """For the report."""
        if not self.devices:
            return {"host": self.host}
        xid = None if self.faults is None else [asdict(fault) for fault in self.faults]
        return {"host": self.host, "devices": [asdict(device) for device in self.devices], "xid": xid}


def look(processes: int) -> Node:
    """At this node. One without a driver has no GPUs; one whose driver doesn't answer has an error."""
    host = socket.gethostname()
    try:
        found = ask()
    except FileNotFoundError:
        missing = "nvidia-smi is missing, though there is a driver" if DRIVER.exists() else ""
        return Node(host, processes, error=missing)
    except Exception as error:
        return Node(host, processes, error=f"nvidia-smi does not answer: {error}")
    return Node(host, processes, found, faults())


def problems(nodes: Sequence[Node], gpus: int | None) -> list[str]:
    """What makes a node unfit before anything is measured. `gpus` is what each must have; by default what one has."""
    wanted = gpus or max(len(node.devices) for node in nodes)
    found = []
    for number, node in enumerate(nodes):
        sentences = [node.error] if node.error else _own(node, wanted)
        found += [f"{node.host} (node {number}): {sentence}" for sentence in sentences]
    return found


def unreadable(nodes: Sequence[Node]) -> list[str]:
    """What could not be looked at, and how it can be."""
    blind = ", ".join(node.host for node in nodes if node.devices and node.faults is None)
    if not blind:
        return []
    return [
        f"XID errors are not judged on {blind}: mount the node's /dev/kmsg, in a container that may read it "
        "(privileged, or with that device allowed and CAP_SYSLOG)"
    ]


def _own(node: Node, wanted: int) -> list[str]:
    found = [problem for device in node.devices for problem in device.problems()]
    found += [str(fault) for fault in node.faults or [] if fault.hardware]
    visible = len(node.devices)
    if visible != wanted:
        count = {0: "none is", 1: "1 is"}.get(visible, f"{visible} are")
        found.append(f"{wanted} GPUs were expected, {count} visible")
    elif visible and visible < node.processes:
        found.append(f"{node.processes} processes share {visible} GPUs")
    return found
