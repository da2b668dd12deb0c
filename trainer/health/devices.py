"""What the driver says of the GPUs of this node, by `nvidia-smi` (it comes with the driver, into containers too)."""

from __future__ import annotations

import csv
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

    def problems(self) -> list[str]:
        found = []
        if self.uncorrected:
            found.append(f"GPU {self.index} has {self.uncorrected} uncorrected memory errors")
        if self.celsius >= HOT:
            found.append(f"GPU {self.index} has {self.celsius} degrees")
        return found


def parse(lines: Iterable[str]) -> list[Device]:
    """Lines of `--format=csv,noheader,nounits`; what a device doesn't know ([N/A]) counts as 0."""

    def number(text: str) -> int:
        return int(text) if text.strip().lstrip("-").isdigit() else 0

    return [
        Device(number(row[0]), row[1].strip(), *(number(field) for field in row[2:]))
        for row in csv.reader(lines, skipinitialspace=True)
        if len(row) == len(FIELDS)
    ]


def ask(timeout: float = 60) -> list[Device]:
    """Raises OSError or subprocess.SubprocessError where the driver doesn't answer: a GPU fell off its bus."""
    command = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=True)
    return parse(done.stdout.splitlines())
