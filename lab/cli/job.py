"""Follow the training job that the stack submitted: one live line, then how it ended."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.cli import services
from lab.cli.environment import environment
from lab.cli.errors import LabError
from lab.settings import Lab

ASK_SECONDS = 10
"""How often the cluster is asked for the job's condition while its metrics say that it runs."""


@dataclass(frozen=True)
class Job:
    """A PyTorchJob, and the folder of its files on this machine."""

    name: str
    namespace: str
    folder: Path

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"


def follow(lab: Lab, job: Job, show: Callable[[str], None], seconds: float) -> bool:
    """Wait for the job's end, showing its latest metrics. Returns whether there was anything to wait for.

    Raises LabError with what the cluster says if it fails or `seconds` pass.
    """
    waited = False
    deadline = time.monotonic() + seconds
    asked, condition = 0.0, ""
    while True:
        # Each question costs a second of CPU time (`aws eks get-token`), which the trainers need more.
        if time.monotonic() - asked >= (ASK_SECONDS if _running(job) else 1):
            asked, condition = time.monotonic(), state(lab, job)
        if condition == "Succeeded":
            return waited
        if condition == "Failed":
            raise LabError(f"job {job.name} failed:\n{explain(lab, job)}")
        if time.monotonic() > deadline:
            raise LabError(
                f"job {job.name} did not end within {seconds / 60:.0f} minutes:\n{explain(lab, job)}"
            )
        show(line(job, condition))
        waited = True
        time.sleep(0.5)


def _running(job: Job) -> bool:
    """Whether the trainer's own metrics say that it has begun and not ended."""
    records = events(job.metrics)
    return bool(records) and records[-1].get("event") != "end"


def state(lab: Lab, job: Job) -> str:
    """The newest condition that is true: Created, Running, Restarting, Succeeded, Failed, or Absent.

    Raises LabError if the emulator is gone: it checks the tokens, so the cluster refuses everybody without it.
    """
    result = kubectl(lab, "get", "pytorchjob", job.name, "-n", job.namespace, "-o", "json")
    if result.returncode:
        if not services.healthy(lab):
            raise LabError(
                f"the AWS emulator is no longer running (its log: {lab.logs / 'aws.log'}), and without it nobody can "
                "log in to the cluster. `make up` clears the lab away and begins anew"
            )
        return "Absent"
    conditions = json.loads(result.stdout).get("status", {}).get("conditions", [])
    true = [condition["type"] for condition in conditions if condition["status"] == "True"]
    return true[-1] if true else "Created"


def line(job: Job, condition: str) -> str:
    """`step 40/200  loss 2.113  5,310 tokens/s`, or what the cluster is doing until there is a step."""
    records = events(job.metrics)
    steps = [record for record in records if record.get("event") == "step"]
    if not steps:
        return f"job {job.name}: {condition.lower()}, no step yet"
    total = next((record["steps"] for record in reversed(records) if record.get("event") == "start"), "?")
    last = steps[-1]
    return (
        f"job {job.name}: step {last['step']}/{total}  loss {last['loss']:.3f}  "
        f"{last['tokens_per_second']:,.0f} tokens/s"
    )


def events(metrics: Path) -> list[dict[str, Any]]:
    """What the rank-0 worker wrote to metrics.jsonl so far, without a line that isn't complete yet."""
    try:
        lines = metrics.read_text().splitlines()
    except OSError:
        return []
    found = []
    for text in lines:
        with contextlib.suppress(ValueError):
            found.append(json.loads(text))
    return found


def explain(lab: Lab, job: Job) -> str:
    """Pods, events and the workers' last log lines: what a person would look at first."""
    label = f"training.kubeflow.org/job-name={job.name}"
    commands = [
        ["get", "pods", "-n", job.namespace, "-l", label, "-o", "wide"],
        ["get", "events", "-n", job.namespace, "--sort-by=.lastTimestamp"],
        ["logs", "-n", job.namespace, "-l", label, "--tail=15", "--prefix"],
    ]
    return "\n".join(kubectl(lab, *command).stdout.strip()[-3000:] for command in commands)


def kubectl(lab: Lab, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run kubectl as the stack's user does (tokens of `aws eks get-token`)."""
    return subprocess.run(
        [str(lab.bin / "kubectl"), "--request-timeout=20s", *arguments],
        env=environment(lab),
        capture_output=True,
        text=True,
        check=False,
    )
