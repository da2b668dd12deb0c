"""Start long-lived programs, remember them on disk, and stop exactly those again.

A record holds the process's start time beside its id, so an id that the kernel has since
given to another program's process is never signalled.
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

import psutil

from lab.settings import Lab


@dataclass(frozen=True)
class Process:
    """A program that the lab started: its name, process id and start time (see `start_time`)."""

    name: str
    pid: int
    started: int
    record: Path

    def alive(self) -> bool:
        return start_time(self.pid) == self.started


def start_time(pid: int) -> int | None:
    """When the process started, in hundredths of a second since the machine's own start.

    Unlike psutil's `create_time`, which counts from 1970, it stays the same when the machine's clock is set. None for
    a process that has ended, zombies included.
    """
    try:
        process = psutil.Process(pid)
        if process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        return round((process.create_time() - psutil.boot_time()) * 100)
    except psutil.NoSuchProcess:
        return None


def having(variable: str, value: str) -> list[int]:
    """Process ids of all on this machine that were started with this in their environment."""
    return [
        process.pid
        for process in psutil.process_iter(["environ"])
        if (process.info["environ"] or {}).get(variable) == value
    ]


def kill(pids: Iterable[int]) -> None:
    """SIGKILL to those that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


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
    return record(lab, name, child.pid)


def record(lab: Lab, name: str, pid: int) -> Process:
    """Write down that process `pid` is the lab's, so that later commands find and stop it.

    It must lead a process group of its own: `stop` signals the group.
    """
    lab.run.mkdir(parents=True, exist_ok=True)
    started = start_time(pid) or 0
    path = lab.run / f"{name}.json"
    path.write_text(json.dumps({"pid": pid, "started": started}))
    return Process(name, pid, started, path)


def recorded(lab: Lab) -> list[Process]:
    """Every process on record, alive or not, the newest first (the order to stop them in)."""
    found = []
    for path in lab.run.glob("*.json"):
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError):
            continue  # half written when its writer was killed: nothing to signal
        found.append(Process(path.stem, content["pid"], content["started"], path))
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
