"""An emulator that is killed with -9, at any moment, leaves nothing that the cleanup does not find and remove."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab import processes
from lab.nodes import cleanup, programs
from lab.nodes.node import bridge
from lab.settings import Lab
from tests.ports import free_port_base
from tests.waiting import eventually

pytestmark = pytest.mark.lab
IN_A_NETWORK_OF_ITS_OWN = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
"""So that it may have a bridge whatever else runs here. The network goes with the last process in it."""


MOMENTS = ("registry", "*.etcd", "*.api", "*.scheduler", "*.init", "*.containerd", "*.kubelet", "*.kwok")
"""Processes in the order in which they are started: it is killed as soon as one of that name is on record."""


@pytest.mark.parametrize("moment", [*MOMENTS, "up"])
def test_killed_at_any_moment(moment: str, tmp_path: Path) -> None:
    lab = Lab("victim", Lab.from_environment().cache, tmp_path / "state", port_base=free_port_base())
    if reason := programs.why_no_real_nodes(lab):
        pytest.skip(reason)
    output = tmp_path / "output"
    command = (sys.executable, "-m", "tests.lab.nodes.victim", lab.state, lab.cache, lab.port_base)
    with output.open("w") as out:
        victim = subprocess.Popen(
            [*map(str, (*IN_A_NETWORK_OF_ITS_OWN, *command))], stdout=out, stderr=out, start_new_session=True
        )

    def reached() -> bool:
        assert victim.poll() is None, output.read_text()
        return "up" in output.read_text() if moment == "up" else any(lab.run.glob(f"{moment}.json"))

    try:
        eventually(reached, 90)
    finally:
        victim.kill()
        victim.wait()
        before = cleanup.leftovers(lab)
        cleanup.remove_leftovers(lab)
        processes.stop_all(lab, grace=2)  # the registry is not the clusters'
    assert before or moment == "registry"
    assert cleanup.leftovers(lab) == []
    assert _processes_with(str(lab.state)) == []


def _processes_with(text: str) -> list[str]:
    """Command lines of live processes that mention it, this one and its parents excepted."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


def test_the_bridge_is_not_anothers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second lab says whose the bridge is, and leaves it alone."""
    ours = Lab("ours", tmp_path, tmp_path / "state")
    monkeypatch.setattr(bridge, "read_alias", lambda lab: "shardyard /somebody/elses")
    with pytest.raises(RuntimeError, match="/somebody/elses"):
        bridge.ensure(ours)
    bridge.remove(ours)  # would fail if it tried: there is no such bridge
