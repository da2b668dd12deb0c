"""Start long-lived programs, remember them on disk, and stop exactly those again.

A record holds the process's start time beside its id, so a number that the kernel has
given to somebody else's process is never signalled.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.settings import Lab


@dataclass(frozen=True)
class Process:
    """A program that the lab started: its name, process id and kernel start time (clock ticks)."""

    name: str
    pid: int
    started: int
    record: Path

    def alive(self) -> bool:
        return start_time(self.pid) == self.started


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third, the state, on (proc(5)): the name before them may hold anything.

    Raises OSError.
    """
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def having(variable: str, value: str) -> list[int]:
    """Process ids of all on this machine that were started with this in their environment."""
    mark, found = f"{variable}={value}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def kill(pids: Iterable[int]) -> None:
    """SIGKILL to those that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, or None for a process that is gone or a zombie (proc(5))."""
    try:
        fields = stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def spawn(
    lab: Lab,
    name: str,
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Process:
    """Start `command` in a session of its own, its output in logs/NAME.log.

    Raises FileNotFoundError if the program is missing.
    """
    lab.logs.mkdir(parents=True, exist_ok=True)
    lab.run.mkdir(parents=True, exist_ok=True)
    with (lab.logs / f"{name}.log").open("ab") as log:
        child = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=cwd,
            start_new_session=True,
        )
    started = start_time(child.pid) or 0
    record = lab.run / f"{name}.json"
    record.write_text(json.dumps({"pid": child.pid, "started": started}))
    return Process(name, child.pid, started, record)


def recorded(lab: Lab) -> list[Process]:
    """Every process on record, alive or not, the newest first (the order to stop them in)."""
    found = []
    for record in lab.run.glob("*.json"):
        try:
            content = json.loads(record.read_text())
        except (OSError, ValueError):
            continue  # half written when its writer was killed: nothing to signal
        found.append(Process(record.stem, content["pid"], content["started"], record))
    return sorted(found, key=lambda process: process.started, reverse=True)


def find(lab: Lab, name: str) -> Process | None:
    """The live process of that name, or None."""
    return next((p for p in recorded(lab) if p.name == name and p.alive()), None)


def stop(process: Process, grace: float = 10.0) -> None:
    """SIGTERM to the process's group, SIGKILL after `grace` seconds, and forget the record."""
    for number, wait in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        if not process.alive():
            break
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + wait
        while process.alive() and time.monotonic() < deadline:
            _reap(process.pid)
            time.sleep(0.05)
    process.record.unlink(missing_ok=True)


def stop_all(lab: Lab, prefix: str = "", grace: float = 10.0) -> list[str]:
    """Stop every recorded process whose name starts with `prefix`; returns the names."""
    names = []
    for process in recorded(lab):
        if process.name.startswith(prefix):
            stop(process, grace)
            names.append(process.name)
    return names


def _reap(pid: int) -> None:
    """Collect the exit status when the process is our own child."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
