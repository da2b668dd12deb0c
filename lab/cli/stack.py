"""Pulumi's command line on one stack of this project, in the lab's environment.

pulumi.automation isn't used: see docs/decisions.md, "The local stack".
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from lab.cli import engine
from lab.cli.environment import PROJECT, environment
from lab.cli.errors import LabError
from lab.cli.output import line
from lab.settings import Lab


class Stack:
    """One stack of the project in the given folder; `console` is where the engine's progress goes."""

    def __init__(self, lab: Lab, name: str, project: Path = PROJECT, console: Console | None = None) -> None:
        self.lab = lab
        self.name = name
        self._project = project
        self._console = console or Console()

    def init(self) -> None:
        """Make the backend's folder and the stack in it, unless they exist."""
        (self.lab.state / "pulumi").mkdir(parents=True, exist_ok=True)
        names = [stack["name"] for stack in json.loads(self._capture("stack", "ls", "--json"))]
        if self.name not in names:
            self._capture("stack", "init", self.name, "--non-interactive")

    def release(self) -> None:
        """Remove the lock of an engine that is dead.

        Raises LabError if the engine that holds it is alive.
        """
        for lock in (self.lab.state / "pulumi/.pulumi/locks").rglob(f"{self.name}/*.json"):
            with contextlib.suppress(OSError, ValueError):
                pid = json.loads(lock.read_text())["pid"]
                if _is_engine(pid):
                    raise LabError(
                        f"process {pid} (pulumi) is at work on stack {self.name}: wait for it to end"
                    )
                lock.unlink()

    def up(self, *options: str) -> dict[str, int]:
        """`pulumi up` with its live progress. Returns how many resources were created, updated, same, …

        Raises LabError if it fails (the engine has then said why), Interrupted and EngineKilled as engine.run does.
        """
        return self._change("up", "--skip-preview", "--suppress-outputs", *options)

    def destroy(self) -> dict[str, int]:
        """`pulumi destroy`. Raises as `up` does."""
        return self._change("destroy", "--skip-preview", "--suppress-outputs")

    def refresh(self) -> dict[str, int]:
        """`pulumi refresh`: drift shows as updates or deletes. Raises as `up` does."""
        return self._change("refresh", "--skip-preview", "--suppress-outputs")

    def remove(self) -> None:
        """Forget the stack in the backend; its file under stacks/ stays."""
        self._capture("stack", "rm", self.name, "--yes", "--preserve-config")

    def outputs(self, secrets: bool = False) -> dict[str, Any]:
        options = ["--show-secrets"] if secrets else []
        text = self._capture("stack", "output", "--json", "--stack", self.name, *options)
        outputs: dict[str, Any] = json.loads(text)
        return outputs

    def export(self) -> dict[str, Any]:
        deployment: dict[str, Any] = json.loads(self._capture("stack", "export", "--stack", self.name))[
            "deployment"
        ]
        return deployment

    def resources(self) -> list[dict[str, Any]]:
        return list(self.export().get("resources") or [])

    def pending(self) -> list[str]:
        """URNs that an interrupted engine was working on: whether they exist is unknown."""
        return [item["resource"]["urn"] for item in self.export().get("pending_operations") or []]

    def _change(self, command: str, *options: str) -> dict[str, int]:
        with self._events() as events:
            arguments = [command, "--stack", self.name, "--yes", "--event-log", str(events), *options]
            # the engine offers its event log only beside its debugging commands
            variables = {**environment(self.lab), "PULUMI_DEBUG_COMMANDS": "true"}
            status = engine.run(
                self.lab,
                self._command(arguments),
                variables,
                self._project,
                say=lambda text: line(self._console, text, "yellow"),
                output=sys.stderr if self._console.stderr else None,
            )
            if status:
                raise LabError(
                    f"`pulumi {command}` of stack {self.name} failed with exit status {status}: "
                    "its messages are above. What it has made is on record, so the next command goes on from there."
                )
            return _changes(events)

    @contextlib.contextmanager
    def _events(self) -> Iterator[Path]:
        path = self.lab.state / f"events-{os.getpid()}.json"
        path.unlink(missing_ok=True)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _capture(self, *arguments: str) -> str:
        result = subprocess.run(
            self._command(arguments),
            cwd=self._project,
            env=environment(self.lab),
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise LabError(
                f"`pulumi {' '.join(arguments)}` failed: {(result.stderr or result.stdout).strip()}"
            )
        return result.stdout

    def _command(self, arguments: Sequence[str]) -> list[str]:
        """Raises LabError if Pulumi isn't there yet."""
        program = self.lab.bin / "pulumi"
        if not program.exists():
            raise LabError(f"{program} is missing: `make up` builds it")
        return [str(program), *arguments]


def _is_engine(pid: int) -> bool:
    """Whether that process is a Pulumi (the id may have been given to another program since)."""
    try:
        return psutil.Process(pid).name() == "pulumi"
    except psutil.NoSuchProcess:
        return False


def _changes(events: Path) -> dict[str, int]:
    """The engine's own summary: operation → number of resources."""
    for event in reversed(events.read_text().splitlines()):
        summary = json.loads(event).get("summaryEvent")
        if summary:
            changes: dict[str, int] = summary["resourceChanges"]
            return changes
    return {}
