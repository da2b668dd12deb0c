"""Start, ask and stop what runs as long as the lab is up: AWS emulator, image registry, and what they have started."""

from __future__ import annotations

import json
import shutil
import time
import urllib.error
import urllib.request
from typing import Any

from lab import processes
from lab.cli import engine, orphan_processes, running_lab
from lab.cli.environment import PROJECT, environment
from lab.cli.errors import LabError
from lab.nodes import cleanup
from lab.settings import Lab

EMULATOR = "aws"
START_SECONDS = 60
STOP_SECONDS = 60
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Asks the emulator straight, whatever proxy the user has set."""


def healthy(lab: Lab) -> bool:
    """Whether the lab's own emulator runs and answers (on the same port there may be another lab's)."""
    try:
        return processes.find(lab, EMULATOR) is not None and bool(ask(lab, "health"))
    except LabError:
        return False


def ask(lab: Lab, path: str, seconds: float = 10) -> Any:
    """GET one of the emulator's own pages (health, calls, resources).

    Raises LabError if it doesn't answer.
    """
    url = f"{lab.aws_endpoint}/_lab/{path}"
    try:
        with _direct.open(url, timeout=seconds) as response:
            return json.load(response)
    except (urllib.error.URLError, TimeoutError, ConnectionError, ValueError) as error:
        raise LabError(f"the AWS emulator doesn't answer on {lab.aws_endpoint} ({error})") from error


def remaining_resources(lab: Lab) -> list[str]:
    """The leak check: what exists in the emulator and isn't kept on purpose, a line each; none after a good destroy."""
    return [_line(item) for item in ask(lab, "resources") if not item["kept"]]


def kept_resources(lab: Lab) -> list[str]:
    """What `pulumi destroy` keeps unless the stack file says `storage.deleteData: true`, a line each."""
    return [_line(item) for item in ask(lab, "resources") if item["kept"]]


def _line(item: dict[str, Any]) -> str:
    return f"  {item['type']} {item['id']} {item.get('name') or ''}".rstrip()


def start(lab: Lab) -> bool:
    """Start registry and emulator unless they run. Returns whether the emulator was started."""
    from lab import registry

    running_lab.record(lab)
    registry.start(lab)
    if processes.find(lab, EMULATOR):
        return False
    command = [str(PROJECT / ".venv/bin/python"), "-m", "lab.aws", "--name", lab.name]
    process = processes.spawn(lab, EMULATOR, command, environment(lab), cwd=PROJECT)
    deadline = time.monotonic() + START_SECONDS
    while not healthy(lab):
        if not process.alive() or time.monotonic() > deadline:
            log = lab.logs / f"{EMULATOR}.log"
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise LabError(f"the AWS emulator did not come up; the end of {log}:\n{tail}")
        time.sleep(0.1)
    return True


def stop(lab: Lab) -> list[str]:
    """Stop all that the lab started and remove its state. Returns what could not be removed."""
    abandoned = processes.find(lab, engine.RECORD)
    if abandoned:
        processes.stop(abandoned, grace=0)
    emulator = processes.find(lab, EMULATOR)
    if emulator:
        processes.stop(emulator, grace=STOP_SECONDS)  # it stops its clusters first
    orphan_processes.end(lab)
    cleanup.remove_leftovers(lab)
    processes.stop_all(lab)
    left = cleanup.leftovers(lab)
    if not left:
        shutil.rmtree(lab.state, ignore_errors=True)
        if lab.state.exists():
            return [f"folder {lab.state}"]
        running_lab.forget(lab)
    return left


def reset(lab: Lab) -> None:
    """Clear away what can't be gone on with.

    Raises LabError naming what could not be removed.
    """
    left = stop(lab)
    if left:
        raise LabError("an earlier lab left things that could not be removed: " + ", ".join(left))
