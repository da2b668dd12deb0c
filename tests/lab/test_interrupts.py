"""^C, a closed window and kill while Pulumi's engine works.

They run `make down` on a terminal, with a program for the engine that handles SIGINT as Pulumi does
(pkg/backend/cancellation_scope.go).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lab import processes
from lab.cli import engine, lab_state, orphan_processes
from lab.cli.interrupts import WAITING
from lab.cli.lab_state import Condition, Phase
from lab.settings import Lab
from tests.lab.support import play_emulator
from tests.ports import free_port_base
from tests.terminal import Terminal
from tests.waiting import eventually

PROJECT = Path(__file__).resolve().parents[2]
ENGINE = """#!{python}
import os, pathlib, signal, subprocess, sys, time
if sys.argv[1] == "stack":
    print("[]")
    sys.exit()
folder = pathlib.Path(__file__).parent
plugin = subprocess.Popen([sys.executable, folder / "pulumi-language-python"], start_new_session=True)
(folder / "plugin").write_text(str(plugin.pid))
interrupts = []
def interrupted(number, frame):
    interrupts.append(number)
    (folder / "interrupts").write_text(str(len(interrupts)))
signal.signal(signal.SIGINT, interrupted)
print("deleting", flush=True)
while not interrupts or os.environ["ENGINE"] == "busy":
    time.sleep(0.02)
    if os.environ["ENGINE"] == "fails":
        break
time.sleep(0.3)  # what is in flight is finished
plugin.kill()
plugin.wait()
sys.exit(255)
"""


class Machine:
    """A lab whose emulator answers, and the folder of its programs."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def down(self, engine: str) -> Terminal:
        """`make down` on a terminal. The engine is orderly, busy (it never ends by itself), or it fails."""
        return Terminal([sys.executable, "-m", "lab", "down"], self.variables(engine), PROJECT)

    def variables(self, engine: str) -> dict[str, str]:
        return {
            **os.environ,
            "ENGINE": engine,
            "SHARDYARD_LAB": self.lab.name,
            "SHARDYARD_CACHE": str(self.lab.cache),
            "SHARDYARD_STATE": str(self.lab.state.parent),
            "SHARDYARD_MACHINE": str(self.lab.machine),
            "SHARDYARD_PORT_BASE": str(self.lab.port_base),
        }

    def interrupts(self) -> int:
        """How many SIGINTs the engine has received."""
        path = self.lab.bin / "interrupts"
        return int(path.read_text() or 0) if path.exists() else 0

    def nothing_is_left_running(self) -> None:
        plugin = int((self.lab.bin / "plugin").read_text())
        eventually(lambda: processes.start_time(plugin) is None)
        assert orphan_processes.find(self.lab) == []
        assert processes.find(self.lab, engine.RECORD) is None


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    lab = Lab("unit", tmp_path / "cache", tmp_path / "states/unit", free_port_base(), tmp_path / "machine")
    lab.bin.mkdir(parents=True)
    (lab.bin / "pulumi").write_text(ENGINE.replace("{python}", sys.executable))
    (lab.bin / "pulumi").chmod(0o755)
    (lab.bin / "pulumi-language-python").write_text("import time; time.sleep(60)")
    with play_emulator(lab):
        lab_state.write(lab, Phase.SETTLED, "make up")
        yield Machine(lab)
        for process in processes.recorded(lab):
            processes.stop(process, grace=0)
        orphan_processes.end(lab)


def test_the_first_ctrl_c_waits_for_the_engine_and_says_what_next(machine: Machine) -> None:
    with machine.down("orderly") as terminal:
        terminal.wait_for("deleting")
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
        assert WAITING in terminal.text
        assert "`make up` goes on from there" in terminal.text
    assert machine.interrupts() == 1, "the engine takes a second SIGINT as an order to abandon its work"
    assert lab_state.condition(machine.lab) is Condition.READY
    machine.nothing_is_left_running()


def test_the_second_ctrl_c_ends_it_at_once_and_says_what_that_means(machine: Machine) -> None:
    with machine.down("busy") as terminal:
        terminal.wait_for("deleting")
        terminal.press_ctrl_c()
        terminal.wait_for(WAITING)
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
        assert "begins anew" in terminal.text
    assert lab_state.condition(machine.lab) is Condition.CUT_SHORT
    machine.nothing_is_left_running()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_kill_and_a_closed_window_are_as_one_ctrl_c(machine: Machine, number: signal.Signals) -> None:
    with machine.down("orderly") as terminal:
        terminal.wait_for("deleting")
        terminal.process.send_signal(number)
        assert terminal.wait() == 130
    assert machine.interrupts() == 1
    assert lab_state.condition(machine.lab) is Condition.READY
    machine.nothing_is_left_running()


def test_a_killed_engine_is_called_that(machine: Machine) -> None:
    with machine.down("busy") as terminal:
        terminal.wait_for("deleting")
        found = processes.find(machine.lab, engine.RECORD)
        assert found
        os.kill(found.pid, signal.SIGKILL)
        assert terminal.wait() == 1
        assert "was killed by SIGKILL" in terminal.text
        assert "begins anew" in terminal.text
    assert lab_state.condition(machine.lab) is Condition.CUT_SHORT
    machine.nothing_is_left_running()


def test_an_engine_that_fails_leaves_a_lab_to_go_on_from(machine: Machine) -> None:
    with machine.down("fails") as terminal:
        assert terminal.wait() == 1
        assert "failed with exit status 255" in terminal.text
    assert lab_state.condition(machine.lab) is Condition.READY
    machine.nothing_is_left_running()


def test_with_json_the_engines_progress_is_not_on_standard_output(machine: Machine) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "lab", "down", "--json"],
        env=machine.variables("fails"),
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stdout == ""
    assert "deleting" in result.stderr


def test_an_engine_that_outlives_its_command_is_on_record(machine: Machine) -> None:
    with machine.down("busy") as terminal:
        terminal.wait_for("deleting")
        terminal.process.kill()
        terminal.wait()
        found = processes.find(machine.lab, engine.RECORD)
        assert found and psutil.pid_exists(found.pid)
        assert lab_state.condition(machine.lab) is Condition.CUT_SHORT
        processes.stop(found, grace=0)
        orphan_processes.end(machine.lab)
    machine.nothing_is_left_running()
