"""`make up`: from a clean clone to a trained model, or quickly to "nothing to do"."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from lab.cli import job as jobs
from lab.cli import lab_state, lock, preflight, services
from lab.cli.environment import PROJECT
from lab.cli.errors import REFUSED, LabError
from lab.cli.interrupts import next_step
from lab.cli.lab_state import Condition
from lab.cli.output import line
from lab.cli.stack import Stack
from lab.settings import Lab

STACK = "local"
COMMAND = "make up"
JOB_MINUTES = 20
UNCHANGED = {"same"}


@dataclass(frozen=True)
class Report:
    """What `make up` did and where its results are; `--json` prints it."""

    changes: dict[str, int]
    trained: bool
    """Whether this command saw the job run (False: it had ended before)."""
    seconds: float
    picture: str | None
    outputs: dict[str, Any]

    @property
    def nothing_to_do(self) -> bool:
        return not self.trained and not {op for op, n in self.changes.items() if n} - UNCHANGED


def up(lab: Lab, console: Console) -> Report:
    """Bring the local stack up and wait for its training job.

    Raises LabError with every problem found before anything is started, or with the first that stops the work.
    """
    begin = time.monotonic()
    with next_step(
        "Interrupted. What is done is kept: `make up` goes on from there, `make down` removes it."
    ):
        with lock.held(lab, COMMAND):
            problems = preflight.problems(lab) + _stack_problems()
            if problems:
                raise LabError(*problems, exit_code=REFUSED)
            tools(lab, console)
            _clear_unusable(lab, console)
            with lab_state.changing(lab, COMMAND):
                changes = _deploy(lab, console)
        outputs = Stack(lab, STACK).outputs()
    job = job_of(lab, outputs)
    trained, picture = _train(lab, job, console) if job else (False, None)
    return Report(changes, trained, time.monotonic() - begin, picture, outputs)


def job_of(lab: Lab, outputs: dict[str, Any]) -> jobs.Job | None:
    """The stack's training job, with the folder of its files on the FSx file system."""
    name = next(iter(outputs.get("jobs") or {}), None)
    if name is None:
        return None
    return jobs.Job(name, outputs["namespace"], lab.file_systems / outputs["fileSystemId"] / "jobs" / name)


def _stack_problems() -> list[str]:
    """The stack file's own mistakes, found without the engine."""
    from cluster.settings import SettingsError, load_stack_file

    try:
        load_stack_file(PROJECT / f"stacks/Pulumi.{STACK}.yaml")
    except SettingsError as error:
        return [str(error)]
    return []


def tools(lab: Lab, console: Console) -> None:
    """Toolchain and images, built once into the cache. Raises ToolchainError if one can't be had."""
    from lab import images, toolchain

    toolchain.ensure(lab, console)
    images.ensure(lab, console)


def _clear_unusable(lab: Lab, console: Console) -> None:
    """Clear away a lab that can't be gone on with, and say why."""
    condition = lab_state.condition(lab)
    reason = None if condition.usable else lab_state.explain(lab, condition)
    if condition is Condition.READY:
        stack = Stack(lab, STACK)
        stack.init()
        stack.release()
        pending = ", ".join(urn.rpartition("::")[2] for urn in stack.pending())
        reason = f"an engine was ended in the middle of {pending}" if pending else None
    if reason:
        line(console, f"The earlier lab can't be gone on with: {reason}. It is cleared away.", "yellow")
        services.reset(lab)


def _deploy(lab: Lab, console: Console) -> dict[str, int]:
    from lab import images

    if services.start(lab):
        line(console, f"AWS emulator on {lab.aws_endpoint}, image registry on {lab.registry}")
    images.push(lab)
    stack = Stack(lab, STACK, console=console)
    stack.init()
    stack.release()
    console.rule(f"pulumi up -s {STACK}")
    changes = stack.up()
    write_kubeconfig(lab, stack)
    return changes


def write_kubeconfig(lab: Lab, stack: Stack) -> None:
    """Make the stack's cluster the one that kubectl talks to in the lab's environment."""
    kubeconfig = lab.state / "kubeconfig"
    text = stack.outputs(secrets=True)["kubeconfig"]
    kubeconfig.write_text(text if isinstance(text, str) else json.dumps(text))
    kubeconfig.chmod(0o600)


def _train(lab: Lab, job: jobs.Job, console: Console) -> tuple[bool, str | None]:
    with next_step(
        f"Interrupted. Job {job.name} goes on: `make status` says how far it is, `make up` follows it again."
    ):
        if console.is_terminal:
            with console.status(f"job {job.name}") as status:
                waited = jobs.follow(lab, job, status.update, JOB_MINUTES * 60)
        else:
            waited = jobs.follow(lab, job, _EveryFewSeconds(console), JOB_MINUTES * 60)
    line(console, jobs.line(job, "succeeded"))
    return waited, _draw(lab, job)


class _EveryFewSeconds:
    """Without a terminal a live line becomes a log line, now and then, when it says something new."""

    def __init__(self, console: Console, seconds: float = 5) -> None:
        self._console, self._seconds, self._last, self._said = console, seconds, 0.0, ""

    def __call__(self, text: str) -> None:
        if text != self._said and time.monotonic() - self._last >= self._seconds:
            line(self._console, text)
            self._last, self._said = time.monotonic(), text


def _draw(lab: Lab, job: jobs.Job) -> str | None:
    from trainer import history, plot

    if not job.metrics.exists():
        return None
    picture = PROJECT / "out" / f"loss-{lab.name}.png"
    picture.parent.mkdir(exist_ok=True)
    if not picture.exists() or picture.stat().st_mtime < job.metrics.stat().st_mtime:
        run = history.read(job.metrics)
        plot.draw(run, plot.caption(run, job.name), picture)
    return str(Path(picture).relative_to(Path.cwd())) if picture.is_relative_to(Path.cwd()) else str(picture)
