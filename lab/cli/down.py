"""`make down`: destroy the stack, prove that nothing is left, and stop the lab itself."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console

from lab.cli import lab_state, lock, running_lab, services
from lab.cli.errors import REFUSED, LabError
from lab.cli.interrupts import next_step
from lab.cli.lab_state import Condition
from lab.cli.stack import Stack
from lab.cli.up import STACK
from lab.settings import Lab

COMMAND = "make down"


@dataclass(frozen=True)
class Report:
    """What `make down` removed."""

    deleted: int
    """Resources that Pulumi deleted (0 when there was no stack, or it was cleared away without Pulumi)."""
    seconds: float
    note: str


def down(lab: Lab, console: Console) -> Report:
    """Destroy the stack, check for leaks, stop the lab and remove its state. The cache stays.

    Raises LabError if the destroy fails, if anything of the stack is left, or if it is another lab that runs.
    """
    begin = time.monotonic()
    with next_step("Interrupted. `make down` goes on from there."), lock.held(lab, COMMAND):
        condition, other = lab_state.condition(lab), running_lab.other(lab)
        if other and condition is Condition.ABSENT:
            raise LabError(running_lab.describe(lab, other), exit_code=REFUSED)
        deleted, note = 0, "there was nothing to take down"
        if condition is Condition.READY:
            deleted, note = _destroy(lab, console), _verdict(services.kept_resources(lab))
        elif condition is not Condition.ABSENT:
            note = f"{lab_state.explain(lab, condition)}, so the lab was cleared away without destroying the stack"
        left = services.stop(lab)
        if left:
            raise LabError("these could not be removed: " + ", ".join(left))
        if other:
            note += f"; {running_lab.describe(lab, other)}"
    return Report(deleted, time.monotonic() - begin, note)


def _destroy(lab: Lab, console: Console) -> int:
    stack = Stack(lab, STACK, console=console)
    stack.init()
    stack.release()
    with lab_state.changing(lab, COMMAND):
        console.rule(f"pulumi destroy -s {STACK}")
        changes = stack.destroy()
        left = services.remaining_resources(lab)
        if left:
            raise LabError("`pulumi destroy` left these in the emulator:", *left)
    return changes.get("delete", 0)


def _verdict(kept: list[str]) -> str:
    if not kept:
        return "the leak check found nothing"
    return "the leak check found nothing but what the stack file keeps: " + ", ".join(map(str.strip, kept))
