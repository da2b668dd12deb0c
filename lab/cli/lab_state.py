"""What earlier commands left of the lab, and whether the next one can go on from there.

The emulator holds AWS's state in memory, so it and the Pulumi stack's state only make sense together: when the
emulator is gone, or a command was killed in the middle of a change, the only safe recovery is to begin anew.
`lab.json` in the state folder says whether a command is changing the lab; it is there from before the first process
is started until after the last one is gone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum

from lab import processes
from lab.cli import services
from lab.cli.errors import EngineKilled
from lab.settings import Lab


class Phase(StrEnum):
    """What `lab.json` says."""

    CHANGING = "changing"
    SETTLED = "settled"
    """The command that changed the lab ended by itself, with or without an error: the stack's state is complete."""


@dataclass(frozen=True)
class Record:
    """The phase, and the command that wrote it."""

    phase: Phase
    command: str
    pid: int
    started: int
    """The process's start time (processes.start_time)."""


class Condition(StrEnum):
    """What a command finds."""

    ABSENT = "absent"
    READY = "ready"
    """Nothing was cut short and the emulator answers: the next command goes on from here."""
    CHANGING = "changing"
    """Another command is changing it now."""
    CUT_SHORT = "cut short"
    INCOMPLETE = "incomplete"
    """There are files but no record of a phase."""
    EMULATOR_DEAD = "emulator dead"

    @property
    def usable(self) -> bool:
        return self in (Condition.ABSENT, Condition.READY)


def read(lab: Lab) -> Record | None:
    """The record, or None if there is none that can be read."""
    try:
        content = json.loads((lab.state / "lab.json").read_text())
        return Record(Phase(content["phase"]), content["command"], content["pid"], content["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(lab: Lab, phase: Phase, command: str) -> None:
    lab.state.mkdir(parents=True, exist_ok=True, mode=0o700)  # keys and the stack's state are below it
    pid = os.getpid()
    record = Record(phase, command, pid, processes.start_time(pid) or 0)
    temporary = lab.state / "lab.json.new"
    temporary.write_text(json.dumps(asdict(record)))
    temporary.replace(lab.state / "lab.json")


@contextmanager
def changing(lab: Lab, command: str) -> Iterator[None]:
    """Mark the lab as changing during the block, and as settled after it, unless the engine was killed."""
    write(lab, Phase.CHANGING, command)
    try:
        yield
    except EngineKilled:
        raise
    except BaseException:
        write(lab, Phase.SETTLED, command)
        raise
    write(lab, Phase.SETTLED, command)


def condition(lab: Lab) -> Condition:
    record = read(lab)
    if record is None:
        empty = not lab.state.exists() or not any(lab.state.iterdir())
        return Condition.ABSENT if empty else Condition.INCOMPLETE
    if record.phase is Phase.CHANGING:
        at_work = record.pid != os.getpid() and processes.start_time(record.pid) == record.started
        return Condition.CHANGING if at_work else Condition.CUT_SHORT
    return Condition.READY if services.healthy(lab) else Condition.EMULATOR_DEAD


def problem(lab: Lab) -> str | None:
    """Why a command that holds the lock can't go on from what is there, or None if it can (or nothing is there)."""
    found = condition(lab)
    return None if found.usable else explain(lab, found)


def explain(lab: Lab, found: Condition) -> str:
    """The condition as half a sentence."""
    record = read(lab)
    command = record.command if record else "command"
    return {
        Condition.ABSENT: "nothing of it is there",
        Condition.READY: "it is ready",
        Condition.CHANGING: f"`{command}` is changing it",
        Condition.CUT_SHORT: f"an earlier `{command}` was cut short in the middle of its work",
        Condition.INCOMPLETE: f"its state in {lab.state} is incomplete",
        Condition.EMULATOR_DEAD: f"its AWS emulator is no longer running (the end of its log: {lab.logs / 'aws.log'})",
    }[found]
