"""Pulumi's command line on one stack of this project, in the lab's environment."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lab.cli.environment import PROJECT, environment
from lab.cli.errors import LabError
from lab.settings import Lab


class Stack:
    """One stack of the project in the given folder."""

    def __init__(self, lab: Lab, name: str, project: Path = PROJECT) -> None:
        self.lab = lab
        self.name = name
        self._project = project

    def init(self) -> None:
        """Make the backend's folder and the stack in it, unless they exist."""
        (self.lab.state / "pulumi").mkdir(parents=True, exist_ok=True)
        names = [stack["name"] for stack in json.loads(self._capture("stack", "ls", "--json"))]
        if self.name not in names:
            self._capture("stack", "init", self.name, "--non-interactive")

    def release(self) -> None:
        """Take away the lock of an engine that is dead.

        Raises LabError if the engine that holds it is alive.
        """
        for lock in (self.lab.state / "pulumi/.pulumi/locks").rglob(f"{self.name}/*.json"):
            with contextlib.suppress(OSError, ValueError):
                pid = json.loads(lock.read_text())["pid"]
                if Path(f"/proc/{pid}").exists():
                    raise LabError(
                        f"process {pid} (pulumi) is at work on stack {self.name}: wait for it to end"
                    )
                lock.unlink()

    def up(self, *options: str) -> dict[str, int]:
        """`pulumi up` with its live progress. Returns how many resources were created, updated, same, …

        Raises LabError if it fails; the engine has then said why.
        """
        return self._change("up", "--skip-preview", "--suppress-outputs", *options)

    def destroy(self) -> dict[str, int]:
        """`pulumi destroy`; raises LabError if it fails."""
        return self._change("destroy", "--skip-preview", "--suppress-outputs")

    def refresh(self) -> dict[str, int]:
        """`pulumi refresh`: drift shows as updates or deletes. Raises LabError if it fails."""
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
            result = subprocess.run(self._command(arguments), cwd=self._project, env=variables, check=False)
            if result.returncode:
                raise LabError(
                    f"`pulumi {command}` of stack {self.name} failed (see above)", exit_code=result.returncode
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
        return [str(self.lab.bin / "pulumi"), *arguments]


def _changes(events: Path) -> dict[str, int]:
    """The engine's own summary: operation → number of resources."""
    for line in reversed(events.read_text().splitlines()):
        summary = json.loads(line).get("summaryEvent")
        if summary:
            changes: dict[str, int] = summary["resourceChanges"]
            return changes
    return {}
