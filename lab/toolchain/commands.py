"""Run the builders' commands: output to a log, time measured, all of them ended when one fails.

A child dies with its parent (`setpriv --pdeathsig`), so a killed `make up` leaves no compiler running.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lab.toolchain.errors import ToolchainError

TAIL_LINES = 20


class Cancelled(Exception):
    """The command was ended because another step had failed."""


@dataclass
class Usage:
    """What commands have cost so far, in seconds."""

    wall: float = 0.0
    cpu: float = 0.0
    """User and system time of the command and of every descendant that it waited for."""


@dataclass
class Commands:
    """Runs commands of one step, adding up what they cost. `stop` is shared by all steps."""

    log: Path
    stop: StopSignal
    usage: Usage = field(default_factory=Usage)

    def run(
        self,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> list[str]:
        """Run to the end and return the lines of its output (standard error included).

        Raises ToolchainError with the last lines if it fails, Cancelled if it was ended by `stop`.
        """
        arguments = [str(part) for part in command]
        begin = time.monotonic()
        try:
            child = subprocess.Popen(
                [*_dying_with_us(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                cwd=cwd,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise ToolchainError(f"can't run {arguments[0]}: {error}") from error
        with self.stop.watching(child):
            lines = self._read(child, arguments, on_line)
            _, status, spent = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.usage.wall += time.monotonic() - begin
        self.usage.cpu += spent.ru_utime + spent.ru_stime
        if child.returncode == 0:
            return lines
        if self.stop.is_set():
            raise Cancelled
        raise ToolchainError(self._failure(arguments, child.returncode, lines))

    def _read(
        self, child: subprocess.Popen[str], arguments: list[str], on_line: Callable[[str], None] | None
    ) -> list[str]:
        assert child.stdout is not None
        lines = []
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log, child.stdout as output:
            log.write(f"$ {' '.join(arguments)}\n")
            for line in output:
                log.write(line)
                log.flush()
                lines.append(line.rstrip("\n"))
                if on_line:
                    on_line(lines[-1])
        return lines

    def _failure(self, arguments: list[str], code: int, lines: list[str]) -> str:
        shown = " ".join(arguments)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        hint = " (out of memory?)" if code == -signal.SIGKILL else ""
        tail = "\n".join(f"    {line}" for line in lines[-TAIL_LINES:]) or "    (it printed nothing)"
        head = shown if len(shown) <= 200 else shown[:197] + "…"
        return f"`{head}` {how}{hint}:\n{tail}\nThe whole log: {self.log}"


class StopSignal:
    """Ends every running command, and every later one as soon as it starts."""

    def __init__(self) -> None:
        self._set = False
        self._children: set[int] = set()
        self._lock = threading.Lock()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        with self._lock:
            self._set = True
            for pid in self._children:
                _end(pid)

    def watching(self, child: subprocess.Popen[str]) -> _Watch:
        return _Watch(self, child.pid)

    def add(self, pid: int) -> None:
        with self._lock:
            self._children.add(pid)
            if self._set:
                _end(pid)

    def remove(self, pid: int) -> None:
        with self._lock:
            self._children.discard(pid)


class _Watch:
    def __init__(self, stop: StopSignal, pid: int) -> None:
        self._stop, self._pid = stop, pid

    def __enter__(self) -> None:
        self._stop.add(self._pid)

    def __exit__(self, *_: object) -> None:
        self._stop.remove(self._pid)


def _end(pid: int) -> None:
    """SIGTERM to the command's whole session (its process id is the group's)."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)


@cache
def _dying_with_us() -> tuple[str, ...]:
    """The prefix that ties a command's life to the thread that started it, where util-linux has it."""
    return ("setpriv", "--pdeathsig", "KILL", "--") if shutil.which("setpriv") else ()
