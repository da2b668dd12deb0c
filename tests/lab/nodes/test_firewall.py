"""The host's firewall: opened where it has to be, and closed again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.settings import Lab

pytestmark = pytest.mark.lab
SCRIPT = """
import subprocess, sys
from pathlib import Path
from lab.nodes.node import firewall
from lab.settings import Lab

lab = Lab("test", Path(sys.argv[1]), Path(sys.argv[2]))
rules = lambda: subprocess.run(["iptables", "-S"], capture_output=True, text=True).stdout.splitlines()
firewall.allow(lab)
assert not firewall.present(lab), "nothing is dropped, so nothing has to be let through"
for chain in ("FORWARD", "INPUT"):
    subprocess.run(["iptables", "-P", chain, "DROP"], check=True)
before = rules()
for _ in range(2):
    firewall.allow(lab)
assert set(firewall.present(lab)) == {"FORWARD", "INPUT"}
assert len(rules()) == len(before) + 2, rules()
other = Lab("test", lab.cache, lab.state / "other")
firewall.revoke(other)
assert len(rules()) == len(before) + 2, "another lab's rules are not its own"
firewall.revoke(lab)
firewall.revoke(lab)
assert rules() == before
"""


def test_rules_come_and_go(tmp_path: Path) -> None:
    """In a network namespace of its own, so that the machine's firewall stays out of it."""
    cache = Lab.from_environment().cache
    command = ["unshare", "--net", sys.executable, "-c", SCRIPT, str(cache), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], check=False)
    assert done.returncode == 0, done.stderr
