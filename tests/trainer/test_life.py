"""The life of a run: killed, damaged, terminated, moved to other numbers of processes, and the same in the end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.trainer import jobs
from tests.trainer.conftest import ENVIRONMENT, PROJECT, Group, Outcome, torchrun
from trainer import exits, gauges, history
from trainer.checkpoint.store import Store

pytestmark = pytest.mark.processes

STEPS = 60
LONG: dict[str, Any] = {
    "steps": STEPS,
    "checkpoint": {"every": 6, "keep": 3},
    "evaluate": {"every": 20, "sequences": 8},
}


@dataclass
class Start:
    """One start of the job, by our launcher; a process group of its own."""

    file: Path
    output: Path
    processes: int
    environment: dict[str, str] = field(default_factory=dict)
    text: str = ""
    status: int | None = None
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            torchrun(self.processes, "trainer", "--config", str(self.file), launcher="trainer.launch"),
            cwd=PROJECT, env={**ENVIRONMENT, **self.environment}, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def wait_for(self, what: Callable[[], bool], seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not what():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.finish()
                pytest.fail(f"ended with {self.status} too early:\n{self.text}")
            time.sleep(0.002)

    def reported(self, step: int) -> bool:
        path = self.output / "metrics.jsonl"
        return path.exists() and f'"event": "step", "step": {step},' in path.read_text()

    def workers(self) -> list[int]:
        """Process numbers of the trainers themselves, by rank."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == self.process.pid:
                    variables = dict(
                        line.split("=", 1)
                        for line in (folder / "environ").read_text().split("\0")
                        if "=" in line
                    )
                    found[int(variables["RANK"])] = int(folder.name)
            except (OSError, KeyError, ValueError):
                continue
        return [found[rank] for rank in sorted(found)]

    def finish(self, seconds: float = 90) -> int:
        try:
            self.text += self.process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.text += self.process.communicate()[0]
            pytest.fail(f"still running after {seconds} s:\n{self.text}")
        self.status = self.process.returncode
        return self.status


@dataclass
class Story:
    """What happened to one job over its five starts."""

    outcome: Outcome
    starts: list[Start]
    damaged_step: int
    partials: list[str]
    stopped_step: int


@pytest.fixture(scope="module")
def unbroken(group: Group) -> Outcome:
    return group(2, {"unbroken": LONG})["unbroken"]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("life")
    output = folder / "output"
    file = jobs.write(folder / "job.yaml", output, **LONG)
    store = Store(output / "checkpoints")

    first = Start(file, output, 2)  # one process is killed in the middle of the run
    first.wait_for(lambda: first.reported(9))
    os.kill(first.workers()[1], signal.SIGKILL)
    first.finish()

    second = Start(file, output, 2)  # all are killed in the middle of a save
    second.wait_for(lambda: second.reported(19))
    second.wait_for(lambda: any(store.folder.glob("*.partial-*")))
    os.killpg(second.process.pid, signal.SIGKILL)
    for worker in second.workers():
        os.kill(worker, signal.SIGKILL)
    second.finish()
    partials = [path.name for path in store.folder.glob("*.partial-*")]

    damaged = store.steps()[0]  # a bit of the newest checkpoint turns over
    victim = store.path(damaged) / "__0_0.distcp"
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)

    third = Start(file, output, 1)  # on one process, and told to end
    third.wait_for(lambda: third.reported(29))
    third.process.send_signal(signal.SIGTERM)
    third.finish()
    stopped = store.steps()[0]

    fourth = Start(file, output, 3)  # on three processes, to the end
    fourth.finish()
    fifth = Start(file, output, 2)  # after the end
    fifth.finish()
    return Story(Outcome(0, "", output), [first, second, third, fourth, fifth], damaged, partials, stopped)


def test_exit_statuses_say_whether_to_try_again(story: Story) -> None:
    assert [start.status for start in story.starts] == [
        128 + signal.SIGKILL, -signal.SIGKILL, exits.TERMINATED, exits.FINISHED, exits.FINISHED,
    ]  # fmt: skip


def test_a_half_written_checkpoint_is_never_taken(story: Story) -> None:
    assert len(story.partials) == 1, "the second start was not killed in the middle of a save"
    assert not list((story.outcome.output / "checkpoints").glob("*.partial-*")), "what a crash left is swept"


def test_a_damaged_checkpoint_is_left_out_with_the_reason(story: Story) -> None:
    third = story.starts[2]
    line = f"checkpoint of step {story.damaged_step} is damaged and left out: __0_0.distcp fails its checksum"
    assert line in third.text
    assert f"resuming after step {story.damaged_step - 6}" in third.text


def test_sigterm_saves_where_it_stands(story: Story) -> None:
    assert 29 <= story.stopped_step <= 33
    assert f"step {story.stopped_step}/60 stopped on request" in story.starts[2].text
    assert "3 process(es) on cpu" in story.starts[3].text
    assert f"resuming after step {story.stopped_step}" in story.starts[3].text


def test_a_finished_job_does_nothing(story: Story) -> None:
    assert "finished earlier, nothing to do" in story.starts[4].text
    assert len(story.outcome.history.starts) == 4


def test_the_curve_is_that_of_an_unbroken_run(story: Story, unbroken: Outcome) -> None:
    ours, theirs = story.outcome.history, unbroken.history
    assert list(ours.losses) == list(theirs.losses) == list(range(1, STEPS + 1))
    assert list(ours.losses.values()) == pytest.approx(list(theirs.losses.values()), rel=1e-5)
    assert ours.held_out == pytest.approx(theirs.held_out, rel=1e-5)


def test_on_as_many_processes_it_is_the_same_to_the_last_bit(story: Story, unbroken: Outcome) -> None:
    """The first two starts had two processes, as many as the unbroken run; step damaged - 6 is their last trace."""
    kept = story.damaged_step - 6
    assert kept > 6, "the second start kept nothing of its own"
    ours, theirs = story.outcome.history.losses, unbroken.history.losses
    assert [ours[step] for step in range(1, kept + 1)] == [theirs[step] for step in range(1, kept + 1)]


def test_the_weights_are_those_of_an_unbroken_run(story: Story, unbroken: Outcome) -> None:
    ours, theirs = story.outcome.weights(STEPS), unbroken.weights(STEPS)
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        assert float((ours[name] - value).norm() / value.norm()) < 1e-4, (
            name
        )  # 60 steps, on 2, 1 and 3 processes


def test_old_checkpoints_are_pruned(story: Story) -> None:
    assert Store(story.outcome.output / "checkpoints").steps() == [60, 54, 48]


def test_another_job_in_the_same_folder_is_refused_before_anything_is_touched(story: Story) -> None:
    output = story.outcome.output
    file = jobs.write(output.parent / "other.yaml", output, **jobs.merged(LONG, {"seed": 6, "steps": 70}))
    start = Start(file, output, 1)
    assert start.finish() == exits.CONFIG
    assert "seed: was 5, is 6" in start.text


def test_a_process_that_hangs_is_named_and_ends_the_job(tmp_path: Path) -> None:
    """Also what others see of a run while it is going: Prometheus, the heartbeat, and a profile when they ask."""
    port = free_port()
    output = tmp_path / "output"
    changes = jobs.merged(
        LONG, {"metrics": {"port": port}, "limits": {"collective_seconds": 5, "stop_seconds": 3}}
    )
    start = Start(jobs.write(tmp_path / "job.yaml", output, **changes), output, 2)
    start.wait_for(lambda: start.reported(9))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        page = answer.read().decode()
    beat = json.loads((output / "heartbeat.json").read_text())
    start.process.send_signal(signal.SIGUSR1)
    start.wait_for(lambda: len(list((output / "profiles").glob("*.json.gz"))) == 2)
    os.kill(start.workers()[1], signal.SIGSTOP)
    assert start.finish() == exits.RETRY
    assert "no answer from rank 1 on host" in start.text

    values = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    label = '{job_name="tiny"}'
    assert float(values[f"shardyard_trainer_step{label}"]) >= 9
    assert 0 < float(values[f"shardyard_trainer_loss{label}"]) < 7
    assert float(values[f"shardyard_trainer_checkpoint_failures_total{label}"]) == 0
    step = history.read(output / "metrics.jsonl").steps[9]
    told = {name: value for name, value in step.items() if name not in ("event", "time")}
    named = {
        f"shardyard_trainer_{name}{label}"
        for name, value in gauges.of_step(told).items()
        if value is not None
    }
    assert named <= values.keys()
    assert abs(time.time() - float(values[f"shardyard_trainer_heartbeat_seconds{label}"])) < 120
    assert beat["step"] >= 9
    assert beat["event"] in ("step", "checkpoint", "held_out")
    assert (beat["steps"], beat["start"], beat["world"]) == (STEPS, 1, 2)
    assert 0 < beat["interval"] < 60
    assert 0 < beat["loss"] < 7
    last = json.loads((output / "heartbeat.json").read_text())
    assert last["event"] == "failed"
    assert last["process"] == beat["process"] != os.getpid()
    assert abs(time.time() - beat["time"]) < 120


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="a PID namespace needs root and unshare"
)
def test_the_first_process_of_a_container_ends_when_told_while_it_waits_for_peers(tmp_path: Path) -> None:
    file = jobs.write(tmp_path / "job.yaml", tmp_path)
    process = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-m", "trainer.launch", "--nnodes", "2",
         "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--rdzv-id", "alone",
         "-m", "trainer", "--config", str(file)],
        cwd=PROJECT, env=ENVIRONMENT, start_new_session=True,
    )  # fmt: skip
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        first = 0
        while not first:
            first = int((children.read_text().split() or ["0"])[0])
        time.sleep(15)
        assert process.poll() is None, "it was to wait for a second node"
        os.kill(first, signal.SIGTERM)
        assert process.wait(timeout=90) == exits.TERMINATED
    finally:
        process.kill()


def test_a_run_that_diverged_is_not_started_again(tmp_path: Path) -> None:
    """torchrun by itself would do it three times more, and each would end the same."""
    output = tmp_path / "output"
    changes = {"optimiser": {"learning_rate": 1e30}, "schedule": {"warmup": 0}, "evaluate": {"sequences": 0}}
    start = Start(jobs.write(tmp_path / "job.yaml", output, **changes), output, 2, {"PET_MAX_RESTARTS": "3"})
    assert start.finish() == exits.DIVERGED
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines].count("start") == 1


def test_a_wrong_file_fails_before_torch_is_loaded_and_for_good(tmp_path: Path) -> None:
    file = jobs.write(tmp_path / "job.yaml", tmp_path, stepz=3)
    done = subprocess.run(
        torchrun(2, "trainer", "--config", str(file), launcher="trainer.launch"),
        cwd=PROJECT, env=ENVIRONMENT, text=True, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == exits.CONFIG
    assert done.stderr.count("stepz: unknown key") == 1
    assert "torch" not in done.stderr
