"""The bridge that joins the host (API servers, registry) and the real nodes.

Node n has the bridge address 10.210.0.(10+n), and its pods are 10.211.n.0/24. Every node gets the
routes to all others when it is made, future ones included, so that a new node changes nothing in
the others.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network

from lab import registry
from lab.nodes import programs
from lab.nodes.node import firewall
from lab.settings import Lab

FIRST_NODE = 10
MAX_NODES = 64
"""Real nodes of all clusters; far more than one machine can run."""


def node_address(lab: Lab, number: int) -> IPv4Address:
    return lab.network[FIRST_NODE + number]


def pod_subnet(lab: Lab, number: int) -> IPv4Network:
    return list(lab.pod_network.subnets(new_prefix=24))[number]


def link_name(number: int) -> str:
    """The host's end of node n's veth pair."""
    return f"shardyard-n{number}"


def owner(lab: Lab) -> str:
    """The bridge's alias, by which no lab removes another's bridge."""
    return f"shardyard {lab.state}"


def ensure(lab: Lab) -> None:
    """Make the bridge, and have the image registry listen on it.

    Raises RuntimeError if another lab on this machine has it.
    """
    alias = read_alias(lab)
    if alias is None:
        ip(lab, "link", "add", lab.bridge, "type", "bridge")
        ip(lab, "link", "set", lab.bridge, "alias", owner(lab))
    elif alias != owner(lab):
        raise RuntimeError(
            f"the bridge {lab.bridge} belongs to another lab ({alias}): run `make down` for it first"
        )
    ip(lab, "address", "replace", f"{lab.gateway}/{lab.network.prefixlen}", "dev", lab.bridge)
    ip(lab, "link", "set", lab.bridge, "up")
    firewall.allow(lab)
    registry.start(lab)


def remove(lab: Lab) -> None:
    """Remove this lab's bridge, with its addresses and routes."""
    firewall.revoke(lab)
    if read_alias(lab) == owner(lab):
        ip(lab, "link", "delete", lab.bridge)


def read_alias(lab: Lab) -> str | None:
    """The bridge's alias ("" if it has none), or None if there is no bridge."""
    try:
        shown = subprocess.run(
            ["ip", "-oneline", "link", "show", lab.bridge], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    if shown.returncode:
        return None
    return shown.stdout.partition("alias ")[2].strip()


def connect(lab: Lab, number: int, pid: int) -> None:
    """Give the network namespace of process `pid` the address, veth pair and routes of node `number`."""
    outside, inside = link_name(number), "eth0"
    address = node_address(lab, number)
    disconnect(lab, number)
    ip(lab, "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", str(pid))
    ip(lab, "link", "set", outside, "master", lab.bridge, "up")
    ip(lab, "route", "replace", str(pod_subnet(lab, number)), "via", str(address), "dev", lab.bridge)
    others = [n for n in range(MAX_NODES) if n != number]
    commands = [
        "link set lo up",
        f"address add {address}/{lab.network.prefixlen} dev {inside}",
        f"link set {inside} up",
        f"route add default via {lab.gateway}",
        *(f"route add {pod_subnet(lab, n)} via {node_address(lab, n)}" for n in others),
    ]
    nsenter = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-"]
    _run(lab, nsenter, "\n".join(commands))


def disconnect(lab: Lab, number: int) -> None:
    """Remove the node's veth pair and the route to its pods, if they exist.

    The kernel removes the pair with the node's namespace too, but possibly later than a new node of the same
    number is made.
    """
    for command in (
        ("route", "delete", str(pod_subnet(lab, number)), "dev", lab.bridge),
        ("link", "delete", link_name(number)),
    ):
        subprocess.run(["ip", *command], capture_output=True, check=False)


def ip(lab: Lab, *arguments: str) -> None:
    _run(lab, ["ip", *arguments])


def _run(lab: Lab, command: Sequence[str], text: str | None = None) -> None:
    program = str(programs.find(lab, command[0]))
    done = subprocess.run([program, *command[1:]], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or f'exit status {done.returncode}'}")
