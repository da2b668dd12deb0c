"""What the commands find on the machine, and what they say of it."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

from lab import processes
from lab.cli import environment, lab_state, lock, orphan_processes, preflight, running_lab, services
from lab.cli.errors import EngineKilled, Interrupted, LabError
from lab.cli.interrupts import next_step
from lab.cli.job import Job, state
from lab.cli.lab_state import Condition, Phase
from lab.cli.status import NEXT, show, status
from lab.settings import LOOPBACK, Lab
from tests.lab.support import listen, play_emulator
from tests.ports import free_port_base
from tests.waiting import eventually


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab("unit", tmp_path / "cache", tmp_path / "state", free_port_base(), tmp_path / "machine")


def test_two_at_once_names_the_first(lab: Lab) -> None:
    with (
        lock.held(lab, "make up"),
        pytest.raises(LabError, match=r"`make up` of lab 'unit' is at work \(process \d+"),
    ):
        with lock.held(lab, "make down"):
            pass
    with lock.held(lab, "make down"):
        pass  # free again


def test_the_lock_of_a_killed_command_is_free(lab: Lab) -> None:
    path = lock.path(lab)
    path.parent.mkdir()
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
        assert orphan in orphan_processes.find(lab)
        assert orphan_processes.end(lab)
        eventually(lambda: processes.start_time(orphan) is None)
        assert orphan_processes.find(lab) == []
        assert processes.start_time(used) is not None
    finally:
        shell.kill()
        os.kill(used, signal.SIGKILL)


def test_a_strangers_port_is_named_with_its_program_and_a_way_out(lab: Lab) -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, lab.aws_port))
        other.listen()
        (problem,) = [p for p in preflight.problems(lab) if "port" in p]
    assert f"port {lab.aws_port} " in problem
    assert "python" in problem and f"process {os.getpid()}" in problem
    assert f"SHARDYARD_PORT_BASE={lab.port_base + 10000} make up" in problem


def test_what_a_killed_emulator_left_behind_is_no_stranger(lab: Lab) -> None:
    """etcd goes on when the emulator is killed with -9: the next `make up` stops it."""
    port = lab.cluster_ports(0)[1]
    with play_emulator(lab) as emulator, listen(lab, "cluster.main.etcd", port) as etcd:
        lab_state.write(lab, Phase.SETTLED, "make up")
        assert lab_state.condition(lab) is Condition.READY
        os.kill(emulator.pid, signal.SIGKILL)
        eventually(lambda: not emulator.alive())
        assert preflight.problems(lab) == []
        assert lab_state.condition(lab) is Condition.EMULATOR_DEAD
        with socket.socket() as stranger:
            stranger.bind((LOOPBACK, lab.registry_port))
            stranger.listen()
            (problem,) = preflight.problems(lab)
        assert f"port {lab.registry_port} " in problem
        services.reset(lab)
        assert not etcd.alive()
        assert lab_state.condition(lab) is Condition.ABSENT


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


class TestState:
    """What can be gone on with, and what is said of it."""

    @pytest.fixture
    def said(self, lab: Lab) -> Iterator[Callable[[], str]]:
        """What `make status` prints on a narrow terminal."""

        def said() -> str:
            console = Console(file=io.StringIO(), width=40, highlight=False)
            show(status(lab), console)
            return console.file.getvalue()

        return said

    def test_nothing_is_fine(self, lab: Lab, said: Callable[[], str]) -> None:
        assert lab_state.condition(lab) is Condition.ABSENT
        assert "Next: `make up`" in said()

    def test_a_folder_without_a_record_is_incomplete(self, lab: Lab, said: Callable[[], str]) -> None:
        (lab.state / "pulumi").mkdir(parents=True)
        assert lab_state.condition(lab) is Condition.INCOMPLETE
        assert NEXT[Condition.INCOMPLETE] in said()

    def test_a_record_cut_off_by_a_kill_is_incomplete(self, lab: Lab) -> None:
        lab.state.mkdir(parents=True)
        (lab.state / "lab.json").write_text('{"phase": "chan')
        assert lab_state.condition(lab) is Condition.INCOMPLETE

    def test_a_killed_command_is_named(self, lab: Lab, said: Callable[[], str]) -> None:
        script = (
            "import sys; from pathlib import Path; from lab.cli import lab_state; from lab.settings import Lab;"
            f"lab_state.write(Lab('unit', Path(), Path({str(lab.state)!r})), 'changing', 'make up')"
        )
        subprocess.run([sys.executable, "-c", script], check=True)
        assert lab_state.condition(lab) is Condition.CUT_SHORT
        assert "an earlier `make up` was cut short" in said()
        assert NEXT[Condition.CUT_SHORT] in said()

    def test_a_dead_emulator_is_named(self, lab: Lab, said: Callable[[], str]) -> None:
        lab_state.write(lab, Phase.SETTLED, "make up")
        assert lab_state.condition(lab) is Condition.EMULATOR_DEAD
        assert "emulator is no longer running" in said()
        assert NEXT[Condition.EMULATOR_DEAD] in said()

    def test_another_labs_emulator_on_the_port_is_not_ours(self, lab: Lab, tmp_path: Path) -> None:
        other = Lab("other", lab.cache, tmp_path / "other", lab.port_base, lab.machine)
        lab_state.write(lab, Phase.SETTLED, "make up")
        with play_emulator(other):
            assert lab_state.condition(lab) is Condition.EMULATOR_DEAD
            assert not status(lab)["up"]

    def test_a_command_at_work_is_named(self, lab: Lab, said: Callable[[], str]) -> None:
        with lock.held(lab, "make up"):
            assert f"`make up` of lab 'unit' is at work (process {os.getpid()}, for 0 min)" in said()
            assert NEXT[Condition.CHANGING] in said()
        assert "at work" not in said()

    def test_a_cluster_that_does_not_answer_is_said(self, lab: Lab, said: Callable[[], str]) -> None:
        lab_state.write(lab, Phase.SETTLED, "make up")
        lab.bin.mkdir(parents=True)
        (lab.state / "kubeconfig").touch()
        refused = "The connection to the server 10.210.0.1:15000 was refused - did you specify the right host or port?"
        for name, script in (("pulumi", "echo '{}'"), ("kubectl", f"echo '{refused}' >&2; exit 1")):
            (lab.bin / name).write_text(f"#!/bin/sh\n{script}\n")
            (lab.bin / name).chmod(0o755)
        with play_emulator(lab):
            assert f"the cluster doesn't answer: {refused}\n" in said()

    def test_long_names_are_shown_in_full(self, lab: Lab, said: Callable[[], str]) -> None:
        name = "cluster.shardyard-local.node.ip-10-20-30-40.us-east-1.compute.internal.kube-proxy"
        with listen(lab, name, lab.cluster_ports(0)[0]) as process:
            assert f"{name}  {process.pid}" in said()

    @pytest.mark.parametrize("error", [LabError("no"), KeyboardInterrupt(), OSError(), Interrupted("^C")])
    def test_an_error_of_the_command_itself_leaves_a_settled_lab(
        self, lab: Lab, error: BaseException
    ) -> None:
        with pytest.raises(type(error)), lab_state.changing(lab, "make up"):
            raise error
        record = lab_state.read(lab)
        assert record and record.phase is Phase.SETTLED

    def test_a_killed_engine_does_not(self, lab: Lab) -> None:
        with pytest.raises(EngineKilled), lab_state.changing(lab, "make up"):
            raise EngineKilled("killed")
        assert lab_state.condition(lab) is Condition.CUT_SHORT


def test_a_job_that_nobody_can_ask_for_is_not_waited_for(lab: Lab, tmp_path: Path) -> None:
    """Without the emulator, which checks tokens, the API server answers "Unauthorized" for ever."""
    lab.bin.mkdir(parents=True)
    (lab.bin / "kubectl").write_text("#!/bin/sh\necho 'error: Unauthorized' >&2; exit 1\n")
    (lab.bin / "kubectl").chmod(0o755)
    job = Job("llama", "training", tmp_path)
    with play_emulator(lab):
        assert state(lab, job) == "Absent"
    with pytest.raises(LabError, match="AWS emulator is no longer running"):
        state(lab, job)


def test_an_interrupt_says_what_next() -> None:
    with pytest.raises(Interrupted, match="make up") as caught, next_step("`make up` goes on"):
        raise KeyboardInterrupt
    assert caught.value.exit_code == 130


def run(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/root",
        "COLUMNS": "80",
        "SHARDYARD_LAB": lab.state.name,
        "SHARDYARD_STATE": str(lab.state.parent),
        "SHARDYARD_MACHINE": str(lab.machine),
        "SHARDYARD_PORT_BASE": str(lab.port_base),
    }
    command = [sys.executable, "-m", "lab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=False)


@pytest.mark.parametrize("command", ["up", "down", "status", "tools", "env"])
def test_every_command_has_help_with_examples_and_json(lab: Lab, command: str) -> None:
    result = run(lab, command, "--help")
    assert result.returncode == 0
    assert f"python -m lab {command}" in result.stdout.partition("Examples:")[2]
    assert "--json" in result.stdout and "130" in result.stdout


def test_status_of_nothing_is_plain_data(lab: Lab) -> None:
    result = run(lab, "status", "--json")
    assert result.returncode == 3
    found = json.loads(result.stdout)
    assert found["up"] is False and found["condition"] == "absent" and found["next"] == "`make up`"


def test_env_of_a_lab_that_is_down_says_so_beside_the_exports(lab: Lab) -> None:
    result = run(lab, "env")
    assert result.returncode == 0
    assert f"export AWS_ENDPOINT_URL={lab.aws_endpoint}" in result.stdout
    assert "is down" in result.stderr and "`make up`" in result.stderr
    assert json.loads(run(lab, "env", "--json").stdout)["AWS_ENDPOINT_URL"] == lab.aws_endpoint


class TestAnotherLab:
    """Commands of one HOME while a lab of another one runs."""

    @pytest.fixture
    def other(self, lab: Lab, tmp_path: Path) -> Iterator[Lab]:
        """It runs, on the same ports."""
        other = Lab("other", tmp_path / "cache-2", tmp_path / "home-2/other", lab.port_base, lab.machine)
        with play_emulator(other) as emulator:
            running_lab.record(other)
            yield other
            assert emulator.alive(), "it must be left alone"

    def test_every_command_names_it_its_folder_and_the_variables(self, lab: Lab, other: Lab) -> None:
        variables = f"SHARDYARD_STATE={other.state.parent} SHARDYARD_LAB=other SHARDYARD_CACHE="
        for command, exit_code in (("status", 3), ("up", 2), ("down", 2), ("env", 0)):
            result = run(lab, command)
            assert result.returncode == exit_code, result.stderr
            said = result.stdout + result.stderr
            assert "lab 'other' runs on this machine" in said
            assert str(other.state) in said and variables in said
            assert "end that program" not in said and "cleared" not in said

    def test_the_variables_reach_it(self, lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        for assignment in running_lab.variables(lab, other).split():
            monkeypatch.setenv(*assignment.split("="))
        monkeypatch.setenv("SHARDYARD_PORT_BASE", str(lab.port_base))  # the same for both, so not among them
        monkeypatch.setenv("SHARDYARD_MACHINE", str(lab.machine))
        assert Lab.from_environment() == other

    def test_its_own_record_and_that_of_a_lab_that_is_gone_are_no_other_lab(self, lab: Lab) -> None:
        running_lab.record(lab)
        assert running_lab.other(lab) is None
        gone = Lab("gone", lab.cache, lab.state.parent / "gone", lab.port_base, lab.machine)
        running_lab.record(gone)
        assert running_lab.other(lab) is None
        running_lab.forget(lab)
        assert running_lab.other(gone) is None and (lab.machine / "running.json").exists()
        running_lab.forget(gone)
        assert not (lab.machine / "running.json").exists()
