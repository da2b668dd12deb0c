"""`make down`: destroy, prove that nothing is left, and take the lab itself away."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from lab.cli import lock, world
from lab.cli.errors import LabError
from lab.cli.stack import Stack
from lab.cli.up import STACK
from lab.settings import Lab


@dataclass(frozen=True)
class Report:
    """What `make down` removed."""

    deleted: int
    """Resources that the stack deleted (0 when there was no stack, or its world was gone)."""
    seconds: float
    note: str


def down(lab: Lab, console: Console) -> Report:
    """Destroy the stack, sweep emulator and cluster, stop the lab. The cache stays.

    Raises LabError if the destroy fails or anything of the stack is left.
    """
    begin = time.monotonic()
    with lock.held(lab, "make down"):
        reason = world.unusable(lab)
        deleted, note = 0, "there was nothing to take down"
        if reason:
            note = f"the lab could not be destroyed resource by resource ({reason}), so it was cleared away whole"
        elif world.read_phase(lab):
            deleted, note = _destroy(lab, console), _verdict(kept(lab))
        left = world.stop(lab)
        if left:
            raise LabError("these could not be removed: " + ", ".join(left))
    return Report(deleted, time.monotonic() - begin, note)


def _destroy(lab: Lab, console: Console) -> int:
    stack = Stack(lab, STACK)
    stack.init()
    stack.release()
    world.write_phase(lab, "changing")
    try:
        console.rule(f"pulumi destroy -s {STACK}")
        changes = stack.destroy()
        left = sweep(lab)
    except LabError:
        world.write_phase(lab, "settled")
        raise
    if left:
        world.write_phase(lab, "settled")
        raise LabError("`pulumi destroy` left these in the emulator:", *left)
    return changes.get("delete", 0)


def sweep(lab: Lab) -> list[str]:
    """Everything that is still in the emulator and isn't kept on purpose: a line each; none after a good destroy."""
    return [_line(item) for item in world.ask(lab, "resources") if not item["kept"]]


def kept(lab: Lab) -> list[str]:
    """What `pulumi destroy` leaves unless the stack file says `storage.deleteData: true`."""
    return [_line(item) for item in world.ask(lab, "resources") if item["kept"]]


def _line(item: dict[str, Any]) -> str:
    return f"  {item['type']} {item['id']} {item.get('name') or ''}".rstrip()


def _verdict(kept: list[str]) -> str:
    if not kept:
        return "the sweep found nothing left"
    return "the sweep found nothing left but what the stack file keeps: " + ", ".join(map(str.strip, kept))
