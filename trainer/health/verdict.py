"""From measurements to the names of bad nodes.

A slow pair does not say which of its two nodes is to blame. So nodes are measured in pairs, all pairs of a round at the
same time; a node that was fast with anybody is cleared, and in the next round those that were not are paired anew with
cleared ones: who is slow with a cleared node too, is bad. That takes one round on a good day, two or three on others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FLOORS = {
    "p4d.24xlarge": 70.0,
    "p4de.24xlarge": 70.0,
    "p5.48xlarge": 315.0,
    "p5e.48xlarge": 315.0,
    "p5en.48xlarge": 315.0,
}
"""GB/s of bus bandwidth that an all-reduce of large messages between two nodes must reach: 90 % of what healthy ones do
(77.9 on two p4d with four EFA interfaces, about 350 on p5). One interface alone gives 20.3, TCP 8.2 on p4d."""
FLOORS_WITHIN = {
    "p4d.24xlarge": 207.0,
    "p4de.24xlarge": 207.0,
    "p5.48xlarge": 430.0,
    "p5e.48xlarge": 430.0,
    "p5en.48xlarge": 430.0,
}
"""The same for the 8 GPUs of one node: 90 % of 230.8 over a p4d's NVLink (NVIDIA/nccl#527) and of 480 with NVLink SHARP
on 8 H100 (NVIDIA/nccl#1374)."""
WITHOUT_FLOOR = ("p6-b200.48xlarge", "p6-b300.48xlarge")
"""Types with EFA whose healthy figures nobody has published."""
TYPES = (*FLOORS, *WITHOUT_FLOOR)

Pair = tuple[int, int]


@dataclass(frozen=True)
class Verdict:
    """Node numbers."""

    bad: list[int]
    """Slow with a node that was fast with another."""
    doubtful: list[int]
    """Slow with everybody, where nobody was fast."""
    links: list[Pair]
    """Slow together, though each was fast with another node: what lies between them is to blame."""

    @property
    def clean(self) -> bool:
        return not (self.bad or self.doubtful or self.links)


def judge(measured: Mapping[Pair, float], floor: float) -> Verdict:
    slow = sorted(pair for pair, bandwidth in measured.items() if bandwidth < floor)
    cleared = _cleared(measured, floor)
    nodes = sorted({node for pair in measured for node in pair} - cleared)
    bad = [node for node in nodes if any(node in pair and cleared & {*pair} for pair in slow)]
    return Verdict(
        bad,
        [node for node in nodes if node not in bad],
        [pair for pair in slow if cleared >= {*pair}],
    )


def next_round(nodes: int, measured: Mapping[Pair, float], floor: float) -> list[Pair]:
    """Pairs to measure at the same time, none with a node twice; empty when everything is known."""
    cleared = _cleared(measured, floor)
    bad = {*judge(measured, floor).bad}
    open_nodes = [node for node in range(nodes) if node not in cleared and node not in bad]
    partners = [node for node in range(nodes) if node in cleared]
    pairs: list[Pair] = []
    used: set[int] = set()
    for node in open_nodes:
        if node in used:
            continue
        for other in [*partners, *open_nodes] if partners else open_nodes:
            pair = (min(node, other), max(node, other))
            if other != node and other not in used and pair not in measured:
                pairs.append(pair)
                used |= {*pair}
                break
    return pairs


def _cleared(measured: Mapping[Pair, float], floor: float) -> set[int]:
    return {node for pair, bandwidth in measured.items() if bandwidth >= floor for node in pair}


def names(numbers: Sequence[int], hosts: Sequence[str]) -> str:
    return ", ".join(f"{hosts[number]} (node {number})" for number in numbers)


def sentences(between: Mapping[Pair, float], floor: float, hosts: Sequence[str]) -> list[str]:
    """The judgement in words, which name nodes and connections."""
    found = judge(between, floor)

    def speeds(nodes: list[int]) -> str:
        own = {pair: speed for pair, speed in sorted(between.items()) if {*pair} & {*nodes}}
        return ", ".join(f"{a}-{b}: {speed:.1f}" for (a, b), speed in own.items())

    lines = []
    if found.bad:
        lines.append(f"slow with nodes that are fast with others: {names(found.bad, hosts)}; "
                     f"GB/s {speeds(found.bad)}, floor {floor}")  # fmt: skip
    if found.doubtful:
        lines.append(f"too slow, all with each other: {names(found.doubtful, hosts)}; "
                     f"GB/s {speeds(found.doubtful)}, floor {floor}")  # fmt: skip
    lines += [
        f"the connection of {names(pair, hosts)} is slow, though both are fast with others: "
        f"{between[pair]:.1f} GB/s, floor {floor}"
        for pair in found.links
    ]
    return lines
