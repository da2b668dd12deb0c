"""Which lab runs on this machine, for commands of another lab (another HOME, SHARDYARD_STATE or SHARDYARD_LAB).

Real nodes share one bridge, so one lab at a time runs on a machine. Its name and folders are written to a file that
all labs read.
"""

from __future__ import annotations

import json
from pathlib import Path

from lab import processes
from lab.settings import Lab


def _path(lab: Lab) -> Path:
    return lab.machine / "running.json"


def record(lab: Lab) -> None:
    """Write down that this lab runs. Call it before its first process is started."""
    content = {"name": lab.name, "cache": str(lab.cache), "state": str(lab.state), "port_base": lab.port_base}
    lab.machine.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = lab.machine / "running.json.new"
    temporary.write_text(json.dumps(content))
    temporary.replace(_path(lab))


def forget(lab: Lab) -> None:
    """Remove the record if it is this lab's. Call it when the last of its processes is gone."""
    recorded = _read(lab)
    if recorded and recorded.state == lab.state:
        _path(lab).unlink(missing_ok=True)


def other(lab: Lab) -> Lab | None:
    """The other lab that has processes on this machine, or None."""
    recorded = _read(lab)
    if recorded is None or recorded.state == lab.state:
        return None
    return recorded if any(process.alive() for process in processes.recorded(recorded)) else None


def variables(lab: Lab, other: Lab) -> str:
    """What to put in front of a command to reach the other lab: `SHARDYARD_STATE=/home/… SHARDYARD_LAB=…`."""
    settings = {
        "SHARDYARD_STATE": (other.state.parent, lab.state.parent),
        "SHARDYARD_LAB": (other.name, lab.name),
        "SHARDYARD_CACHE": (other.cache, lab.cache),
        "SHARDYARD_PORT_BASE": (other.port_base, lab.port_base),
    }
    return " ".join(f"{name}={theirs}" for name, (theirs, ours) in settings.items() if theirs != ours)


def describe(lab: Lab, other: Lab) -> str:
    """That the other lab runs, where it is, and how to reach it."""
    return (
        f"lab {other.name!r} runs on this machine, with its state in {other.state}; this command is for lab "
        f"{lab.name!r} with its state in {lab.state}. To reach the one that runs: "
        f"`{variables(lab, other)} make status` (or `make down`)"
    )


def _read(lab: Lab) -> Lab | None:
    try:
        content = json.loads(_path(lab).read_text())
        return Lab(
            content["name"],
            Path(content["cache"]),
            Path(content["state"]),
            content["port_base"],
            lab.machine,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
