"""Run Pulumi's engine so that it ends in an orderly way whatever happens to the command that runs it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from lab import processes
from lab.cli import orphan_processes
from lab.cli.errors import FAILED, INTERRUPTED, EngineKilled, Interrupted
from lab.cli.interrupts import ForwardedInterrupts
from lab.settings import Lab

RECORD = "pulumi"
"""The engine's name on the lab's record of processes: a later command finds an engine that outlived its own."""


def run(
    lab: Lab,
    command: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    say: Callable[[str], None],
    output: IO[str] | None = None,
) -> int:
    """Run the engine to its end and return its exit status. `output` is for its progress (default: our own output).

    Its standard input is empty. At a terminal the engine would switch it to raw mode, in which ^C is no signal but a
    key that only the engine sees, and which stays on when the engine is killed.

    Raises Interrupted if ^C was pressed and the engine has ended by itself, EngineKilled if something killed it.
    """
    with ForwardedInterrupts(say) as interrupts:
        engine = subprocess.Popen(
            command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output, start_new_session=True
        )
        record = processes.record(lab, RECORD, engine.pid).record
        try:
            interrupts.forward_to(engine)
            status = engine.wait()
        finally:
            record.unlink(missing_ok=True)
        if status:
            orphan_processes.end(lab)
    shown = " ".join(command[1:2])
    if status < 0 or interrupts.count > 1:
        raise _killed(shown, status, by_user=interrupts.count > 1)
    if interrupts.count:
        raise Interrupted(
            "The engine has finished what it had begun. `make up` goes on from there, `make down` removes it."
        )
    return status


def _killed(shown: str, status: int, by_user: bool) -> EngineKilled:
    anew = "The next `make up` clears everything away and begins anew; `make down` only clears it away."
    if by_user:
        return EngineKilled(f"The engine was ended in the middle of its work. {anew}", exit_code=INTERRUPTED)
    name = signal.Signals(-status).name
    hint = " (is the machine out of memory?)" if status == -signal.SIGKILL else ""
    return EngineKilled(
        f"`pulumi {shown}` was killed by {name}{hint} in the middle of its work. {anew}", exit_code=FAILED
    )
