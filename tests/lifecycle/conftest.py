"""One lab for the whole file, in a state folder of its own, driven by the commands that people type."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from lab.cli import environment, preflight, running_lab
from lab.cli.stack import Stack
from lab.settings import Lab

PROJECT = Path(__file__).resolve().parents[2]
UP_SECONDS = 1500


@dataclass(frozen=True)
class Driver:
    """The commands of a lab, run as a person would, and what it looks like from outside."""

    lab: Lab

    @property
    def variables(self) -> dict[str, str]:
        return {**os.environ, "SHARDYARD_LAB": self.lab.name}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "lab", *arguments]

    def run(self, *arguments: str, seconds: float = UP_SECONDS) -> subprocess.CompletedProcess[str]:
        """`python -m lab …`; both streams are captured and shown when the test fails."""
        result = subprocess.run(
            self.command(*arguments),
            cwd=PROJECT,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        print(result.stdout[-20000:], result.stderr[-20000:], sep="\n--- stderr\n")
        return result

    def json(self, *arguments: str) -> dict[str, Any]:
        """The JSON report of a command that must succeed."""
        result = self.run(*arguments, "--json")
        assert result.returncode == 0, f"`lab {' '.join(arguments)}` exited with {result.returncode}"
        report: dict[str, Any] = json.loads(result.stdout)
        return report

    def shell(self, command: str, seconds: float = 300) -> subprocess.CompletedProcess[str]:
        """A line typed after `eval "$(make env)"`."""
        result = subprocess.run(
            ["bash", "-c", command],
            cwd=PROJECT,
            env=environment.environment(self.lab),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        print(f"$ {command}\n{result.stdout[-8000:]}\n{result.stderr[-8000:]}")
        return result

    def kubectl(self, *arguments: str) -> str:
        result = self.shell(f"kubectl {' '.join(arguments)}")
        assert result.returncode == 0
        return result.stdout

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.lab.aws_endpoint,
            region_name=environment.REGION,
            aws_access_key_id=environment.ACCESS_KEY,
            aws_secret_access_key="lab",
        )

    def stack(self, name: str = "local", project: Path = PROJECT) -> Stack:
        return Stack(self.lab, name, project)


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    """A lab named `test`; whatever a failed run left of it is taken away before and after."""
    lab = Lab.from_environment("test")
    driver = Driver(lab)
    other = running_lab.other(lab)
    if other:
        pytest.fail(running_lab.describe(lab, other))
    assert driver.run("down", seconds=600).returncode == 0, "an earlier test lab can't be taken down"
    problems = preflight.problems(lab)
    if problems:
        pytest.fail("the machine isn't free for a lab: " + "; ".join(problems))
    yield driver
    driver.run("down", seconds=600)
