"""Bad days that the commands meet before anything is started."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lab import processes
from lab.cli import environment, lock, preflight, strays, world
from lab.cli.errors import LabError
from lab.settings import LOOPBACK, Lab
from tests.ports import free_port_base
from tests.waiting import eventually


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(name="unit", cache=tmp_path / "cache", state=tmp_path / "state", port_base=free_port_base())


def test_two_at_once_names_the_first(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "lock_path", lambda: tmp_path / "lock")
    with (
        lock.held(lab, "make up"),
        pytest.raises(LabError, match=r"`make up` of lab 'unit' is at work \(process \d+"),
    ):
        with lock.held(lab, "make down"):
            pass
    with lock.held(lab, "make down"):
        pass  # free again


def test_the_lock_of_a_killed_command_is_free(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    monkeypatch.setattr(lock, "lock_path", lambda: path)
    script = (
        f"import fcntl, time; f = open({str(path)!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
        "print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert holder.stdout and holder.stdout.readline()
    with pytest.raises(LabError), lock.held(lab, "make up"):
        pass
    holder.kill()
    holder.wait()
    with lock.held(lab, "make up"):
        pass


def test_plugins_of_a_killed_engine_are_ended_and_nothing_else_is(lab: Lab, tmp_path: Path) -> None:
    """A dynamic provider below its script, as Pulumi starts it; a shell with the lab's variables beside it."""
    variables = {**os.environ, **environment.environment(lab)}
    script = tmp_path / "pulumi-resource-pulumi-python"
    script.write_text("sleep 60\n:\n")
    plugin = f"sh {script} & echo $!; "
    killed = subprocess.Popen(["sh", "-c", plugin], env=variables, stdout=subprocess.PIPE, text=True)
    shell = subprocess.Popen(["sh", "-c", plugin + "wait"], env=variables, stdout=subprocess.PIPE, text=True)
    assert killed.stdout and shell.stdout
    orphan, used = int(killed.stdout.readline()), int(shell.stdout.readline())
    killed.wait()
    try:
        assert orphan in strays.strays(lab)
        assert strays.end(lab)
        eventually(lambda: processes.start_time(orphan) is None)
        assert strays.strays(lab) == []
        assert processes.start_time(used) is not None
    finally:
        shell.kill()
        os.kill(used, signal.SIGKILL)


def test_a_port_in_use_is_named_with_its_holder(lab: Lab) -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, lab.aws_port))
        other.listen()
        (problem,) = [p for p in preflight.problems(lab) if f"port {lab.aws_port} " in p]
        assert "python" in problem
        assert "SHARDYARD_PORT_BASE" in problem


def test_free_ports_are_no_problem(lab: Lab) -> None:
    assert [p for p in preflight.problems(lab) if "port" in p] == []


def test_little_disk_and_memory_are_said_together(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "MEMORY_GIB", 10**6)
    monkeypatch.setattr(preflight, "STATE_DISK_GIB", 10**9)
    found = "\n".join(preflight.problems(lab))
    assert "GiB of memory are available" in found
    assert "SHARDYARD_STATE" in found


def test_a_stack_that_runs_has_its_share_already(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "MEMORY_GIB", 10**6)
    monkeypatch.setattr(preflight, "STATE_DISK_GIB", 10**9)
    started = processes.spawn(lab, "aws", [sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert preflight.problems(lab) == []
    finally:
        processes.stop(started, 5)


def test_not_root_is_said(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert any("not root" in problem for problem in preflight.problems(lab))


def test_exports_are_idempotent_and_hide_the_users_credentials(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("PATH", environment.variables(lab)["PATH"])
    text = environment.exports(lab)
    assert "unset AWS_PROFILE" in text
    assert environment.variables(lab)["PATH"] == environment.environment(lab)["PATH"]
    assert "AWS_PROFILE" not in environment.environment(lab)
    assert environment.ACCESS_KEY[:4] != "AKIA"


def test_exports_survive_a_shell(lab: Lab) -> None:
    script = f"{environment.exports(lab)}\nprintenv AWS_ENDPOINT_URL"
    shell = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert shell.stdout.strip() == f"http://127.0.0.1:{lab.aws_port}"


class TestWorld:
    """Which worlds can be gone on with."""

    def test_none_at_all_is_fine(self, lab: Lab) -> None:
        assert world.unusable(lab) is None

    def test_a_folder_without_a_phase_is_not(self, lab: Lab) -> None:
        (lab.state / "pulumi").mkdir(parents=True)
        assert world.unusable(lab) == "its state is incomplete"

    def test_killed_half_way(self, lab: Lab) -> None:
        world.write_phase(lab, "changing")
        assert world.unusable(lab) == "an earlier command was killed half-way"

    def test_settled_but_the_emulator_is_dead(self, lab: Lab) -> None:
        world.write_phase(lab, "settled")
        assert world.unusable(lab) == "its AWS emulator is no longer running"

    def test_a_phase_cut_off_by_a_kill_counts_as_incomplete(self, lab: Lab) -> None:
        lab.state.mkdir(parents=True)
        (lab.state / "world.json").write_text('{"name": "chan')
        assert world.unusable(lab) == "its state is incomplete"

    def test_the_phase_names_its_writer(self, lab: Lab) -> None:
        world.write_phase(lab, "changing")
        phase = world.read_phase(lab)
        assert phase is not None
        assert processes.start_time(phase.pid) == phase.started


def test_commands_show_help_with_an_example() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "lab", "--help"], capture_output=True, text=True, check=True
    )
    assert "Example:" in result.stdout
    for command in ("up", "down", "status", "env"):
        assert command in result.stdout


def test_status_of_nothing_is_plain_data(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "lab", "status", "--json"],
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/bin:/bin",
            "SHARDYARD_STATE": str(tmp_path),
            "SHARDYARD_PORT_BASE": "51000",
            "HOME": "/root",
        },
        check=False,
    )
    assert result.returncode == 3
    assert json.loads(result.stdout)["up"] is False
