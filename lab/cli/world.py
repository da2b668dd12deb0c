"""The lab's long-lived part: the emulator, the registry and all that they started.

The emulator holds its world in memory, so the world and the stack's state live and die together: when the
emulator is gone, or an `up` or `down` was killed half-way, the only safe recovery is a new world. Its phase
is on disk (world.json) from before the first thing is started until after the last is gone.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from typing import Any

from lab import processes
from lab.cli import strays
from lab.cli.environment import PROJECT, environment
from lab.cli.errors import LabError
from lab.nodes import cleanup
from lab.settings import Lab

START_SECONDS = 60


@dataclass(frozen=True)
class Phase:
    """What the lab was doing when world.json was last written, and which process did it."""

    name: str
    """changing (an `up` or `down` is at work) or settled."""
    pid: int
    started: int


def read_phase(lab: Lab) -> Phase | None:
    try:
        return Phase(**json.loads((lab.state / "world.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_phase(lab: Lab, name: str) -> None:
    lab.state.mkdir(parents=True, exist_ok=True, mode=0o700)  # keys and the stack's state lie in it
    pid = os.getpid()
    phase = Phase(name, pid, processes.start_time(pid) or 0)
    temporary = lab.state / "world.json.new"
    temporary.write_text(json.dumps(asdict(phase)))
    temporary.replace(lab.state / "world.json")


def unusable(lab: Lab) -> str | None:
    """Why the world on disk can't be gone on with, or None if it can (or there is none)."""
    phase = read_phase(lab)
    if phase is None:
        return "its state is incomplete" if lab.state.exists() and any(lab.state.iterdir()) else None
    if phase.name == "changing":
        return "an earlier command was killed half-way"
    if not healthy(lab):
        return "its AWS emulator is no longer running"
    return None


def healthy(lab: Lab) -> bool:
    """Whether the emulator answers."""
    try:
        return bool(ask(lab, "health"))
    except LabError:
        return False


def ask(lab: Lab, path: str, seconds: float = 10) -> Any:
    """GET one of the emulator's own pages (health, calls, resources).

    Raises LabError if it doesn't answer.
    """
    url = f"{lab.aws_endpoint}/_lab/{path}"
    try:
        with urllib.request.urlopen(url, timeout=seconds) as response:
            return json.load(response)
    except (urllib.error.URLError, TimeoutError, ConnectionError, ValueError) as error:
        raise LabError(f"the AWS emulator doesn't answer on {lab.aws_endpoint} ({error})") from error


def start(lab: Lab) -> bool:
    """Start registry and emulator unless they run. Returns whether the emulator was started."""
    from lab import registry

    registry.start(lab)
    if processes.find(lab, "aws"):
        return False
    command = [str(PROJECT / ".venv/bin/python"), "-m", "lab.aws", "--name", lab.name]
    process = processes.spawn(lab, "aws", command, environment(lab), cwd=PROJECT)
    deadline = time.monotonic() + START_SECONDS
    while not healthy(lab):
        if not process.alive() or time.monotonic() > deadline:
            log = lab.logs / "aws.log"
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise LabError(f"the AWS emulator did not come up; the end of {log}:\n{tail}")
        time.sleep(0.1)
    return True


def stop(lab: Lab) -> list[str]:
    """Stop all that the lab started and remove its state. Returns what could not be removed."""
    emulator = processes.find(lab, "aws")
    if emulator:
        processes.stop(emulator, grace=60)  # it takes its clusters down first
    strays.end(lab)
    cleanup.remove_leftovers(lab)
    processes.stop_all(lab)
    left = cleanup.leftovers(lab)
    if not left:
        shutil.rmtree(lab.state, ignore_errors=True)
        if lab.state.exists():
            left = [f"folder {lab.state}"]
    return left


def reset(lab: Lab) -> None:
    """Clear away a world that can't be gone on with.

    Raises LabError naming what would not go.
    """
    left = stop(lab)
    if left:
        raise LabError("an earlier lab left things that could not be removed: " + ", ".join(left))
