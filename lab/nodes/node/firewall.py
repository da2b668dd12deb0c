"""Let the bridge's traffic through a host firewall that drops by default.

Where Docker or ufw is installed, the policy of the FORWARD or INPUT chain is DROP, and the kernel applies it to bridged
packets too (bridge-nf-call-iptables): nodes could not reach each other, nor the API server. One rule per chain, with
the lab's state folder as its comment, accepts them; it is removed with the bridge. A firewall that accepts by default
is not changed.
"""

from __future__ import annotations

import subprocess

from lab.nodes import programs
from lab.settings import Lab


def allow(lab: Lab) -> None:
    """Insert the rules that this machine needs. Raises RuntimeError if iptables refuses one."""
    for chain, rule in _rules(lab).items():
        if _iptables(lab, "-S", chain).startswith(f"-P {chain} DROP") and not _has(lab, chain, rule):
            _iptables(lab, "-I", chain, *rule)


def revoke(lab: Lab) -> None:
    """Delete the lab's rules."""
    for chain, rule in present(lab).items():
        _iptables(lab, "-D", chain, *rule)


def present(lab: Lab) -> dict[str, tuple[str, ...]]:
    """The lab's rules that exist, by chain."""
    try:
        return {chain: rule for chain, rule in _rules(lab).items() if _has(lab, chain, rule)}
    except FileNotFoundError:
        return {}  # without iptables there are no rules


def _rules(lab: Lab) -> dict[str, tuple[str, ...]]:
    accept = ("-m", "comment", "--comment", f"shardyard {lab.state}"[:255], "-j", "ACCEPT")
    return {"FORWARD": ("-i", lab.bridge, "-o", lab.bridge, *accept), "INPUT": ("-i", lab.bridge, *accept)}


def _has(lab: Lab, chain: str, rule: tuple[str, ...]) -> bool:
    command = [str(programs.find(lab, "iptables")), "-w", "-C", chain, *rule]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _iptables(lab: Lab, *arguments: str) -> str:
    command = [str(programs.find(lab, "iptables")), "-w", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"iptables {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
