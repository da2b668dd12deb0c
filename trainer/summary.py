"""The last word of a finished job. Needs no torch, so that a start after the end costs nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.config import Job
from trainer.files import write_atomically

if TYPE_CHECKING:
    from trainer.report import Report

FILE = "summary.json"


@dataclass(frozen=True)
class Summary:
    """What `summary.json` says; losses in nats per token."""

    name: str
    digest: str
    """Of the whole job file (config.Job.digest)."""
    steps: int
    tokens: int
    loss: float
    held_out_loss: float | None
    unigram_entropy: float
    tokens_per_second: float
    world: int
    starts: int
    seconds: float
    """Of the last start."""

    @classmethod
    def of(cls, job: Job, report: Report, *, unigram_entropy: float, world: int, seconds: float) -> Summary:
        step = report.last.get("step", {})
        return cls(
            name=job.name,
            digest=job.digest(),
            steps=job.steps,
            tokens=job.steps * job.tokens,
            loss=step.get("loss", float("nan")),
            held_out_loss=report.last.get("held_out", {}).get("loss"),
            unigram_entropy=unigram_entropy,
            tokens_per_second=step.get("tokens_per_second", 0.0),
            world=world,
            starts=report.starts,
            seconds=round(seconds, 1),
        )

    def write(self, folder: Path) -> None:
        write_atomically(folder / FILE, json.dumps(asdict(self), indent=1) + "\n")


def read(folder: Path) -> Summary | None:
    """None where no job has finished."""
    try:
        return Summary(**json.loads((folder / FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def finished(job: Job) -> bool:
    """Whether this very job, or a run of it that differs in how it was executed, has reached its last step."""
    summary = read(job.output)
    return summary is not None and summary.name == job.name and summary.steps >= job.steps
