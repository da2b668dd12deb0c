"""Starts of processes by tests/trainer/forge.py: of any module, and of one job until it is finished."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.trainer import jobs
from tests.trainer.conftest import ENVIRONMENT, PROJECT
from trainer.checkpoint.store import Store


class Forge:
    """tests/trainer/forge.py, which starts ranks without paying for imports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.trainer.forge"], cwd=PROJECT, env=ENVIRONMENT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._read()["ready"]

    def __call__(self, **order: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self._read()

    def run(
        self,
        module: str,
        world: int,
        *arguments: str,
        environment: dict[str, str] | None = None,
        grace: float = 30.0,
        patience: float = 300.0,
    ) -> Ended:
        """Run `main(arguments)` of a module on so many processes. `grace` and `patience` (seconds) are forge.py's."""
        with tempfile.NamedTemporaryFile("r", dir=self.folder, suffix=".log") as log:
            answer = self(
                module=module, arguments=arguments, world=world, log=log.name, environment=environment or {},
                grace=grace, patience=patience,
            )  # fmt: skip
            return Ended(answer["statuses"], answer["stuck"], log.read())

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return dict(json.loads(self.process.stdout.readline()))

    def children(self) -> list[str]:
        return Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()


@dataclass
class Ended:
    """What became of a group of processes."""

    statuses: list[int]
    """Exit statuses by rank; negative numbers are signals."""
    stuck: list[int]
    """Ranks that had to be killed."""
    text: str
    """What all of them printed."""


@dataclass
class Campaign:
    """One job and all of its starts."""

    forge: Forge
    output: Path
    job: dict[str, Any]
    """Changes to the tiny one."""
    data: Path | None = None
    """Prepared by an earlier campaign."""
    starts: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.output.mkdir(parents=True)

    @property
    def store(self) -> Store:
        return Store(self.output / "checkpoints")

    def start(
        self, world: int, changes: dict[str, Any] | None = None, grace: float = 2.0, **faults: Any
    ) -> dict[str, Any]:
        """Start the job, with `changes` for this time; `faults` are forge.py's. Returns its order and the answer."""
        number = len(self.starts)
        settings = jobs.merged(self.job, changes or {})
        if self.data:
            settings["data"] = {"source": None, "prepared": str(self.data)}
        order = {
            "job": str(jobs.write(self.output / f"job-{number}.yaml", self.output, **settings)),
            "start": number, "world": world, "folder": str(self.output), "grace": grace,
            "log": str(self.output / f"log-{number}"), "faults": faults,
        }  # fmt: skip
        self.starts.append(order | self.forge(**order))
        return self.starts[-1]

    def log(self, number: int = -1) -> str:
        """What a start printed, by default the newest."""
        number %= len(self.starts)
        return (self.output / f"log-{number}").read_text()

    def ledger(self) -> dict[int, Counter[str]]:
        """Rows that each step put through the model, on the path that led to the end: a step that was done again
        counts as done last."""
        steps: dict[int, Counter[str]] = {}
        for number, start in enumerate(self.starts):
            own: dict[int, Counter[str]] = {}
            for rank in range(start["world"]):
                for line in (self.output / f"ledger-{number}-{rank}").read_text().splitlines():
                    step, rows = json.loads(line)
                    own.setdefault(step, Counter()).update(rows)
            steps |= own
        return steps
