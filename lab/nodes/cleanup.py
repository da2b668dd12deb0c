"""Find and remove what a lab's clusters left on the machine when the emulator was killed.

Only what is this lab's by name or record is touched: recorded processes, processes with the lab's state
folder in their environment, the bridge with the lab's alias, the lab's control groups, mounts below its
state folder, and its clusters' files.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from lab import processes
from lab.nodes.cluster_files import PREFIX
from lab.nodes.node import bridge, cgroups, firewall
from lab.nodes.programs import OWNER
from lab.settings import Lab

WAIT_SECONDS = 10.0


def leftovers(lab: Lab) -> list[str]:
    """Everything of the lab's clusters that exists on this machine, one line each."""
    found = [f"process {p.name} ({p.pid})" for p in _recorded(lab) if p.alive()]
    found += [f"process {pid} of a node" for pid in _unrecorded(lab)]
    if bridge.read_alias(lab) == bridge.owner(lab):
        found.append(f"bridge {lab.bridge}")
    found += [f"firewall rule in {chain} for {lab.bridge}" for chain in firewall.present(lab)]
    found += [f"control group {path}" for path in cgroups.existing(lab)]
    found += [f"mount {path}" for path in _mounts(lab)]
    if (lab.state / "clusters").exists():
        found.append(f"folder {lab.state / 'clusters'}")
    return found


def remove_leftovers(lab: Lab) -> None:
    """Remove all of it. No cluster of this lab may be in use. Idempotent."""
    # First processes of nodes: their kernel kills the rest of the node with them.
    recorded = _recorded(lab)
    for process in sorted(recorded, key=lambda p: not p.name.endswith(".init")):
        processes.stop(process, grace=2)
    _kill(_unrecorded(lab))
    bridge.remove(lab)
    for mount in _mounts(lab):
        subprocess.run(["umount", "--lazy", str(mount)], capture_output=True, check=False)
    cgroups.remove(lab)
    shutil.rmtree(lab.state / "clusters", ignore_errors=True)


def _recorded(lab: Lab) -> list[processes.Process]:
    return [p for p in processes.recorded(lab) if p.name.startswith(PREFIX)]


def _unrecorded(lab: Lab) -> list[int]:
    """Processes of nodes whose record was not written yet, or whose recorded parent died first."""
    found = [pid for pid in processes.having(OWNER, str(lab.state)) if processes.start_time(pid) is not None]
    known = {p.pid for p in _recorded(lab) if p.alive()}
    return [pid for pid in found if pid not in known]


def _kill(pids: list[int]) -> None:
    processes.kill(pids)
    deadline = time.monotonic() + WAIT_SECONDS
    while any(processes.start_time(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)


def _mounts(lab: Lab) -> list[Path]:
    """Mounts of this namespace below the lab's state folder, the innermost first (proc(5), mountinfo)."""
    below = f"{lab.state}/"
    try:
        rows = Path("/proc/self/mountinfo").read_text().splitlines()
    except FileNotFoundError:
        return []
    points = [row.split()[4].encode().decode("unicode_escape") for row in rows]
    return [Path(point) for point in sorted(points, reverse=True) if point.startswith(below)]
