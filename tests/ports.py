"""Ports for tests to listen on: none that the kernel may give a connection meanwhile.

A port that the kernel picks (bind to 0) lies in the range that outgoing connections are given too, so that
after the probe is closed anybody's connection may take it. These lie below that range, and are drawn at
random, so that two test runs on one machine don't meet.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path

from lab.ports import can_bind
from lab.settings import LOOPBACK, Lab

FIRST = 16000  # above what a lab with the usual ports has
SLOTS = 3
"""Control planes that a lab of the tests may run at once."""


def free_port() -> int:
    """A port that nothing on the loopback has, and no outgoing connection will get."""
    return _drawn(range(FIRST, _ephemeral()), lambda port: [port])


def free_port_base() -> int:
    """A base for a lab's ports (`Lab.port_base`) with each of them free."""
    return _drawn(range(FIRST, _ephemeral() - 1000 - 10 * SLOTS), _ports)


def _ports(base: int) -> list[int]:
    lab = Lab("probe", Path(), Path(), base)
    slots = [port for slot in range(SLOTS) for port in lab.cluster_ports(slot)]
    return [lab.aws_port, lab.registry_port, *slots]


def _drawn(candidates: range, ports: Callable[[int], Iterable[int]]) -> int:
    draw = random.SystemRandom()
    for _ in range(1000):
        candidate = draw.choice(candidates)
        if all(can_bind(LOOPBACK, port) for port in ports(candidate)):
            return candidate
    raise AssertionError(f"no free ports among {candidates}")


def _ephemeral() -> int:
    """Where the kernel's own choice begins."""
    return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
