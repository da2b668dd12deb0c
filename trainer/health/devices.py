"""What the driver says of the GPUs of this node.

By `nvidia-smi`, which is NVML on the command line and comes with the driver, into containers too. XID errors stand in
the kernel's log, where a container may read it.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass

FIELDS = (
    "index",
    "name",
    "ecc.errors.uncorrected.volatile.total",
    "temperature.gpu",
    "clocks.sm",
    "clocks.max.sm",
    "clocks_throttle_reasons.hw_slowdown",
    "remapped_rows.failure",
    "remapped_rows.pending",
)
HOT = 87
"""Degrees Celsius. Chosen by us, below the point where such devices slow down (nvidia-smi -q -d TEMPERATURE)."""


@dataclass(frozen=True)
class Device:
    index: int
    name: str
    uncorrected: int
    """ECC errors since the driver was loaded that could not be put right."""
    celsius: int
    clock: int
    """MHz of the multiprocessors, now."""
    max_clock: int
    slowed: bool
    """The hardware holds the clock down: heat, power brake."""
    remap_failed: bool
    """A bad row of memory could not be replaced: the device has to go."""
    remap_pending: bool
    """A bad row of memory is replaced at the next reset."""

    def problems(self) -> list[str]:
        found = []
        if self.uncorrected:
            found.append(f"GPU {self.index} has {self.uncorrected} uncorrected memory errors")
        if self.celsius >= HOT:
            found.append(f"GPU {self.index} has {self.celsius} degrees")
        if self.slowed:
            found.append(
                f"GPU {self.index} is slowed down by its hardware: {self.clock} of {self.max_clock} MHz"
            )
        if self.remap_failed:
            found.append(f"GPU {self.index} could not replace a bad row of its memory")
        if self.remap_pending:
            found.append(f"GPU {self.index} has to be reset to replace a bad row of its memory")
        return found


@dataclass(frozen=True)
class Fault:
    """An XID error that the driver reported since the machine started (docs.nvidia.com, XID errors)."""

    device: str
    """PCI address."""
    xid: int

    @property
    def hardware(self) -> bool:
        """False for those that a faulty program causes too."""
        return self.xid not in APPLICATION

    def __str__(self) -> str:
        return f"the kernel's log has XID {self.xid} of the GPU at {self.device}"


APPLICATION = frozenset({13, 31, 43, 45, 68, 69})
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<device>[0-9a-fA-F:.]+)\): (?P<xid>\d+)")


def parse(lines: Iterable[str]) -> list[Device]:
    """Lines of `--format=csv,noheader,nounits`; what a device doesn't know ([N/A]) counts as 0."""

    def number(text: str) -> int:
        return int(text) if text.strip().lstrip("-").isdigit() else 0

    def yes(text: str) -> bool:
        return text.strip().lower() in ("active", "yes", "1")

    found = []
    for row in csv.reader(lines, skipinitialspace=True):
        if len(row) == len(FIELDS):
            errors, celsius, clock, top = map(number, row[2:6])
            slowed, failed, pending = map(yes, row[6:])
            found.append(
                Device(number(row[0]), row[1].strip(), errors, celsius, clock, top, slowed, failed, pending)
            )
    return found


def parse_faults(lines: Iterable[str]) -> list[Fault]:
    """Each kind of error of each device once."""
    found = {Fault(match["device"], int(match["xid"])) for line in lines if (match := _XID.search(line))}
    return sorted(found, key=lambda fault: (fault.device, fault.xid))


def faults(log: str = "/dev/kmsg") -> list[Fault] | None:
    """XID errors in the kernel's log; None where it cannot be read (most containers)."""
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    lines = []
    try:
        while line := os.read(descriptor, 8192):  # a record at a time
            lines.append(line.decode(errors="replace"))
    except BlockingIOError:
        pass  # that was the last one
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return parse_faults("".join(lines).splitlines())


def ask(timeout: float = 60) -> list[Device]:
    """Raises OSError or subprocess.SubprocessError where the driver doesn't answer: a GPU fell off its bus."""
    command = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True)
    return parse(done.stdout.splitlines())
