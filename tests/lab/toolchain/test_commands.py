"""Commands are logged, measured, and tell why they failed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab import processes
from lab.toolchain.commands import Cancelled, Commands, StopSignal
from lab.toolchain.errors import ToolchainError
from tests.waiting import eventually


def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path / "logs" / "step.log", StopSignal())


def test_output_is_returned_logged_and_handed_on_line_by_line(tmp_path: Path) -> None:
    runner, seen = commands(tmp_path), []
    assert runner.run(["sh", "-c", "echo one; echo two >&2"], on_line=seen.append) == ["one", "two"]
    assert seen == ["one", "two"]
    assert runner.log.read_text() == "$ sh -c echo one; echo two >&2\none\ntwo\n"


def test_cpu_time_counts_what_the_command_itself_started(tmp_path: Path) -> None:
    runner = commands(tmp_path)
    busy = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    runner.run(["sh", "-c", f"{sys.executable} -S -c '{busy}'; true"])
    assert 0.25 < runner.usage.cpu < 5
    assert runner.usage.wall > 0.25


def test_a_failure_shows_the_last_lines_and_where_the_rest_is(tmp_path: Path) -> None:
    runner = commands(tmp_path)
    with pytest.raises(ToolchainError) as caught:
        runner.run(["sh", "-c", "seq 100; exit 4"])
    message = str(caught.value)
    assert "ended with 4" in message and str(runner.log) in message
    assert "    100" in message and "    81" in message and "    80\n" not in message


def test_a_killed_command_is_told_from_a_failed_one(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"killed by SIGKILL \(out of memory\?\)"):
        commands(tmp_path).run(["sh", "-c", "kill -9 $$"])


def test_a_missing_program_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="no-such-program"):
        commands(tmp_path).run(["no-such-program"])


def test_after_stop_nothing_new_runs_to_its_end(tmp_path: Path) -> None:
    runner = commands(tmp_path)
    runner.stop.set()
    with pytest.raises(Cancelled):
        runner.run(["sleep", "60"])


def test_a_command_dies_with_whoever_started_it(tmp_path: Path) -> None:
    """A `make up` that is killed with -9 must not leave its compiler running."""
    script = (
        "import sys; from pathlib import Path; from lab.toolchain.commands import *\n"
        f"Commands(Path({str(tmp_path / 'log')!r}), StopSignal())"
        ".run(['sh', '-c', 'echo $$; exec sleep 60'], on_line=lambda line: print(line, flush=True))"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    child = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    eventually(lambda: processes.start_time(child) is None)
