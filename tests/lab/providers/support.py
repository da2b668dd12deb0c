"""An emulator and a Pulumi engine for the tests of the plugins, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import psutil
from botocore.config import Config

from lab.cli import environment
from lab.settings import Lab
from tests.ports import free_port_base

PROJECT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 600
"""Seconds for one command of the engine; far more than it takes on an idle machine."""


@dataclass(frozen=True)
class Cloud:
    """The emulator, without Kubernetes and with short waits."""

    lab: Lab

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            region_name=environment.REGION,
            endpoint_url=self.lab.aws_endpoint,
            aws_access_key_id=environment.ACCESS_KEY,
            aws_secret_access_key="lab",
            config=Config(s3={"addressing_style": "path"}),
        )

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """A path under /_lab; with a body it's a POST."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.lab.aws_endpoint}/_lab/{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def resources(self) -> list[dict[str, str]]:
        """What exists in it."""
        found: list[dict[str, str]] = self.ask("resources")
        return found


@contextmanager
def emulator(folder: Path) -> Iterator[Cloud]:
    lab = Lab(
        name="test", cache=Lab.from_environment().cache, state=folder / "test", port_base=free_port_base()
    )
    variables = {
        **os.environ,
        "SHARDYARD_STATE": str(folder),
        "SHARDYARD_PORT_BASE": str(lab.port_base),
        "PYTHONPATH": str(PROJECT),
    }
    command = [sys.executable, "-m", "lab.aws", "--name", "test", "--no-kubernetes", "--pace", "0.1"]
    with (folder / "emulator.log").open("wb") as log:
        process = subprocess.Popen(command, env=variables, cwd=PROJECT, stdout=log, stderr=log)
    cloud = Cloud(lab)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                cloud.ask("health")
                break
            except OSError:
                assert process.poll() is None, (folder / "emulator.log").read_text()
                assert time.monotonic() < deadline, "the emulator doesn't answer"
                time.sleep(0.2)
        yield cloud
    finally:
        process.terminate()
        process.wait(30)


@dataclass
class Stack:
    """One of the programs, on a stack of its own, driven by the real engine."""

    program: str
    cloud: Cloud
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    """Variables for the program: how its second version differs from the first."""
    output: str = ""
    """What the last command printed."""

    def __post_init__(self) -> None:
        shutil.copytree(PROGRAMS / self.program, self.folder / "program")
        (self.folder / "backend").mkdir()
        self.run("stack", "init", "test")

    @property
    def variables(self) -> dict[str, str]:
        return {
            **environment.environment(self.cloud.lab),
            "PULUMI_BACKEND_URL": f"file://{self.folder}/backend",
            "PULUMI_HOME": str(self.folder / "home"),
            **self.settings,
        }

    def command(self, *arguments: str) -> list[str]:
        return [str(self.cloud.lab.bin / "pulumi"), *arguments, "--non-interactive"]

    def run(self, *arguments: str, fails: bool = False) -> str:
        result = subprocess.run(
            self.command(*arguments),
            cwd=self.folder / "program",
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        self.output = result.stdout + result.stderr
        print(f"$ pulumi {' '.join(arguments)}\n{self.output[-20000:]}")
        assert (result.returncode != 0) == fails, f"pulumi {arguments[0]} exited with {result.returncode}"
        return result.stdout

    def up(self, *arguments: str, fails: bool = False) -> dict[str, int]:
        """How many resources were "created", "updated", "replaced", "deleted", "imported", "unchanged"."""
        return self._change("up", *arguments, fails=fails)

    def refresh(self) -> dict[str, int]:
        return self._change("refresh")

    def destroy(self, fails: bool = False) -> dict[str, int]:
        return self._change("destroy", fails=fails)

    def _change(self, command: str, *arguments: str, fails: bool = False) -> dict[str, int]:
        output = self.run(command, "--yes", "--skip-preview", "--diff", *arguments, fails=fails)
        summary = output.rpartition("Resources:")[2]
        return {kind: int(count) for count, kind in re.findall(r"(\d+) (\w+)$", summary, re.MULTILINE)}

    def preview(self) -> dict[str, dict[str, Any]]:
        """The planned steps by the resource's name; those without a change left out."""
        steps = json.loads(self.run("preview", "--json"))["steps"]
        return {step["urn"].rpartition("::")[2]: step for step in steps if step["op"] != "same"}

    def state(self) -> list[dict[str, Any]]:
        exported = json.loads(self.run("stack", "export"))
        found: list[dict[str, Any]] = exported["deployment"].get("resources", [])
        return found

    def resource(self, name: str, kind: str) -> dict[str, Any]:
        """From the state: the resource with that name whose type ends so."""
        for each in self.state():
            if each["urn"].endswith(f"::{name}") and each["type"].endswith(kind):
                return each
        raise AssertionError(f"no {kind} {name} in the state")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """A command in the background, in a process group of its own."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder / "program",
            env=self.variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def plugins_of(parent: int) -> list[int]:
    """Process ids of the AWS and EKS plugins that the process has started."""
    found = []
    for child in psutil.Process(parent).children():
        with suppress(psutil.Error):
            command = " ".join(child.cmdline())
            if "lab.providers" in command or "pulumi-resource-aws" in command:
                found.append(child.pid)
    return found


def kill(process: subprocess.Popen[bytes]) -> None:
    """Like kill -9: the process gets no chance to tidy up. Its language host goes with its group."""
    process.send_signal(signal.SIGKILL)
    process.wait(10)
