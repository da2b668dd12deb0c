"""What the driver says of the GPUs of this node.

By `nvidia-smi`, which is NVML on the command line and comes with the driver, into containers too. XID errors stand in
the kernel's log, where a container may read it.
"""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

STATE = (
    "index",
    "name",
    "ecc.errors.uncorrected.volatile.total",
    "temperature.gpu",
    "remapped_rows.failure",
    "remapped_rows.pending",
)
CLOCKS = (
    "index",
    "temperature.gpu",
    "clocks.sm",
    "clocks.max.sm",
    "clocks_throttle_reasons.hw_slowdown",
)
HOT = 87
"""Degrees Celsius. Chosen by us, below the point where such devices slow down (nvidia-smi -q -d TEMPERATURE)."""
SLOW = 0.5
"""Share of the highest clock, under load. Chosen by us: the power limit alone takes up to a third away."""


@dataclass(frozen=True)
class Device:
    index: int
    name: str
    uncorrected: int
    """ECC errors since the driver was loaded that could not be put right."""
    celsius: int
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
        if self.remap_failed:
            found.append(f"GPU {self.index} could not replace a bad row of its memory")
        if self.remap_pending:
            found.append(f"GPU {self.index} has to be reset to replace a bad row of its memory")
        return found


@dataclass(frozen=True)
class Clock:
    """Of a device under load: an idle one's says nothing."""

    index: int
    celsius: int
    clock: int
    """MHz of the multiprocessors."""
    max_clock: int
    slowed: bool
    """The hardware holds the clock down: heat, power brake."""

    def problems(self) -> list[str]:
        found = []
        if self.celsius >= HOT:
            found.append(f"GPU {self.index} has {self.celsius} degrees under load")
        speed = f"{self.clock} of {self.max_clock} MHz under load"
        if self.slowed:
            found.append(f"GPU {self.index} is slowed down by its hardware: {speed}")
        elif self.clock < SLOW * self.max_clock:
            found.append(f"GPU {self.index} is slow: {speed}")
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
    """Lines about STATE, with `--format=csv,noheader,nounits`; what a device doesn't know ([N/A]) counts as 0."""
    return [
        Device(_number(index), name, _number(errors), _number(celsius), _yes(failed), _yes(pending))
        for index, name, errors, celsius, failed, pending in _rows(lines, len(STATE))
    ]


def parse_clocks(lines: Iterable[str]) -> list[Clock]:
    """Lines about CLOCKS."""
    return [
        Clock(_number(index), _number(celsius), _number(clock), _number(top), _yes(slowed))
        for index, celsius, clock, top, slowed in _rows(lines, len(CLOCKS))
    ]


def _rows(lines: Iterable[str], columns: int) -> Iterator[list[str]]:
    """Lines with so many values; others are messages."""
    for row in csv.reader(lines, skipinitialspace=True):
        if len(row) == columns:
            yield [value.strip() for value in row]


def _number(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else 0


def _yes(text: str) -> bool:
    return text.lower() in ("active", "yes", "1")


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


def ask() -> list[Device]:
    """Raises OSError or subprocess.SubprocessError where the driver doesn't answer: a GPU fell off its bus."""
    return parse(_query(STATE))


def ask_clocks() -> list[Clock]:
    """As `ask`."""
    return parse_clocks(_query(CLOCKS))


def _query(fields: Iterable[str], timeout: float = 60) -> list[str]:
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        answer, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # and not waited for: inside a broken driver no signal ends it
        raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "nvidia-smi")
    return answer.splitlines()
