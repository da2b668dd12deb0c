"""The job: all sections, and what a run may change of them between two starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from trainer.config.checkpoint import Checkpoint
from trainer.config.data import Batch, Data, Evaluate
from trainer.config.model import Model
from trainer.config.optimiser import Optimiser, Schedule
from trainer.config.parallel import Parallel, Precision, Recompute
from trainer.config.section import Count, Positive, Section
from trainer.config.watching import Limits, Metrics, Watch


class Job(Section):
    """One job file."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    output: Path
    """Folder for checkpoints, metrics and the summary; the same for all processes and all restarts."""
    seed: Count = 0
    steps: Positive
    model: Model
    data: Data
    batch: Batch
    parallel: Parallel = Parallel()
    precision: Precision = Precision()
    recompute: Recompute = Recompute()
    compile: bool = False
    """torch.compile, block by block."""
    optimiser: Optimiser = Optimiser()
    schedule: Schedule = Schedule()
    checkpoint: Checkpoint = Checkpoint()
    evaluate: Evaluate = Evaluate()
    metrics: Metrics = Metrics()
    watch: Watch = Watch()
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        problems = []
        if self.schedule.warmup >= self.steps:
            problems.append(f"schedule.warmup {self.schedule.warmup} leaves nothing of {self.steps} steps")
        if self.watch.non_finite == "roll_back" and not (self.checkpoint.every or self.checkpoint.minutes):
            problems.append("watch.non_finite roll_back needs checkpoint.every or checkpoint.minutes")
        if self.evaluate.every and not self.evaluate.sequences:
            problems.append("evaluate.every has no evaluate.sequences to read")
        if self.compile and self.parallel.context > 1:
            problems.append("compile: what parallel.context exchanges around attention is not compiled")
        shape = ("hidden", "heads", "kv_heads", "feed_forward", "vocabulary", "sequence")
        problems += self.parallel.misfits(
            {key: getattr(self.model, key) for key in shape}, tied=self.model.tied_embeddings
        )
        patience = self.checkpoint.s3.patience_seconds
        if self.checkpoint.storage and 2 * patience > self.limits.save_seconds:
            problems.append(
                f"checkpoint.s3.patience_seconds {patience:g} must be at most half of limits.save_seconds "
                f"{self.limits.save_seconds:g}"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def digest(self) -> str:
        """Hex SHA-256 of everything that the job says."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


FIXED = ("seed", "model", "data", "batch", "optimiser")
"""Sections that a run keeps from its first step to its last. The others may change between two starts."""
FREE = ("data.cache", "data.download", "data.verify")
"""Keys in those sections that change nothing in the numbers."""


def free() -> list[str]:
    """The sections that may change."""
    return [name for name in Job.model_fields if name not in (*FIXED, "name", "output")]


def changed(recorded: dict[str, Any], job: Job) -> list[str]:
    """What differs from `recorded` (an earlier `Job.model_dump(mode="json")`) in the fixed sections, one line each."""
    now = job.model_dump(mode="json")
    return [
        f"{path}: was {was!r}, is {present!r}"
        for section in FIXED
        for path, was, present in _differences(section, recorded.get(section), now[section])
        if path not in FREE
    ]


def _differences(path: str, was: Any, present: Any) -> Iterable[tuple[str, Any, Any]]:
    if isinstance(was, dict) and isinstance(present, dict):
        for key in sorted({*was, *present}):
            yield from _differences(f"{path}.{key}", was.get(key), present.get(key))
    elif was != present:
        yield path, was, present
