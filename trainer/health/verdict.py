"""From measurements to the names of bad nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FLOORS = {
    "p4d.24xlarge": 70.0,
    "p4de.24xlarge": 70.0,
    "p5.48xlarge": 315.0,
    "p5e.48xlarge": 315.0,
    "p5en.48xlarge": 315.0,
}
"""GB/s of bus bandwidth that an all-reduce of large messages between two nodes must reach: 90 % of what healthy ones do
(77.9 on two p4d with four EFA interfaces, about 350 on p5). One interface alone gives 20.3, TCP 8.2 on p4d."""

Pair = tuple[int, int]


def rounds(nodes: int) -> list[list[Pair]]:
    """Pairs of nodes to measure at the same time, round by round, so that every node is in two pairs (one of two).

    Neighbours in a ring: (0,1) (2,3) …, then (1,2) (3,4) …; the last of an odd ring gets a round of its own.
    """
    if nodes < 2:
        return []
    ring = [(node, (node + 1) % nodes) for node in range(nodes if nodes > 2 else 1)]
    even, odd = ring[: nodes - nodes % 2 : 2], ring[1:nodes:2]
    last = [ring[-1]] if nodes % 2 else []
    return [pairs for pairs in (even, odd, last) if pairs]


def suspects(measured: Mapping[Pair, float], floor: float) -> list[int]:
    """Nodes that every one of their pairs was too slow with: a pair alone cannot tell which of the two is to blame."""
    slow = {pair for pair, bandwidth in measured.items() if bandwidth < floor}
    nodes = sorted({node for pair in measured for node in pair})
    return [node for node in nodes if all(pair in slow for pair in measured if node in pair)]


def names(numbers: Sequence[int], hosts: Sequence[str]) -> str:
    return ", ".join(f"{hosts[number]} (node {number})" for number in numbers)
