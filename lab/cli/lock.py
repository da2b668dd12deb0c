"""One command that changes something at a time on a machine.

The lock is the kernel's (flock): it is free the moment that the process which held it ends, however it ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.cli.errors import LabError
from lab.settings import Lab


@dataclass(frozen=True)
class Holder:
    """The command that holds the lock."""

    command: str
    lab: str
    state: str
    """The state folder of its lab."""
    pid: int
    since: float
    """Seconds since 1970."""

    def __str__(self) -> str:
        minutes = (time.time() - self.since) / 60
        return f"`{self.command}` of lab {self.lab!r} is at work (process {self.pid}, for {minutes:.0f} min)"


def path(lab: Lab) -> Path:
    return lab.machine / "lock"


@contextmanager
def held(lab: Lab, command: str) -> Iterator[None]:
    """Hold the machine's lock while `command` works.

    Raises LabError naming the command that has it.
    """
    lab.machine.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path(lab).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(_busy(_read(file))) from None
        file.truncate(0)
        json.dump(asdict(Holder(command, lab.name, str(lab.state), os.getpid(), time.time())), file)
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def holder(lab: Lab) -> Holder | None:
    """The command that holds the lock now, or None. Never waits."""
    try:
        with path(lab).open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _read(file)
    except OSError:
        pass
    return None


def _read(file: Any) -> Holder | None:
    file.seek(0)
    try:
        return Holder(**json.load(file))
    except (ValueError, TypeError):  # it has just begun, or just ended
        return None


def _busy(holder: Holder | None) -> str:
    if holder is None:
        return "another command of the local stack is at work: wait for it to end"
    return f"{holder}: wait for it, or end it with `kill {holder.pid}`, and run this again"
