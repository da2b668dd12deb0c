"""One command at a time, and one lab at a time, on a machine.

The lock is the kernel's (flock): it is gone the moment its holder is, however it ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.cli.errors import LabError
from lab.settings import Lab


def lock_path() -> Path:
    """Machine-wide for root (real nodes share the bridge), a user's own otherwise."""
    return Path("/run/shardyard.lock") if os.geteuid() == 0 else Path(f"/tmp/shardyard-{os.getuid()}.lock")


@contextmanager
def held(lab: Lab, command: str) -> Iterator[None]:
    """Hold the machine's lock while `command` works.

    Raises LabError naming the holder if another command has it.
    """
    path = lock_path()
    path.touch(0o600)
    with path.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(_busy(file.read())) from None
        file.truncate(0)
        json.dump({"command": command, "lab": lab.name, "pid": os.getpid(), "since": time.time()}, file)
        file.flush()
        try:
            yield
        finally:
            file.seek(0)
            file.truncate(0)


def _busy(content: str) -> str:
    try:
        holder = json.loads(content)
    except ValueError:
        return "another command of the local stack is at work: wait for it to end"
    minutes = (time.time() - holder["since"]) / 60
    return (
        f"`{holder['command']}` of lab {holder['lab']!r} is at work (process {holder['pid']}, for {minutes:.0f} min): "
        f"wait for it, or end it with `kill {holder['pid']}` and run this again"
    )
