"""The job: all sections, and what a run may change of them between two starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from trainer.config.checkpoint import Checkpoint
from trainer.config.data import Batch, Data, Evaluate
from trainer.config.model import Model
from trainer.config.optimiser import Optimiser, Schedule
from trainer.config.parallel import TILE, Parallel, Precision, Recompute
from trainer.config.section import Count, Positive, Section, check
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

    @check
    def _warmup_ends(self) -> Iterator[str]:
        if self.schedule.warmup >= self.steps:
            yield f"schedule.warmup {self.schedule.warmup} leaves nothing of {self.steps} steps"

    @check
    def _rolls_back_to_something(self) -> Iterator[str]:
        if self.watch.non_finite == "roll_back" and not (self.checkpoint.every or self.checkpoint.minutes):
            yield "watch.non_finite roll_back needs checkpoint.every or checkpoint.minutes"

    @check
    def _evaluates_something(self) -> Iterator[str]:
        if self.evaluate.every and not self.evaluate.sequences:
            yield "evaluate.every has no evaluate.sequences to read"

    @check
    def _compiles_without_context(self) -> Iterator[str]:
        if self.compile and self.parallel.context > 1:
            yield "compile: what parallel.context exchanges around attention is not compiled"

    @check
    def _tensor_groups_split(self) -> Iterator[str]:
        keys = ("hidden", "feed_forward", "vocabulary")
        tied = getattr(self.model, "tied_embeddings", False)
        yield from self.parallel.misfits({key: getattr(self.model, key, None) for key in keys}, tied=tied)

    @check
    def _tensor_and_context_groups_split(self) -> Iterator[str]:
        keys = ("heads", "kv_heads", "sequence")
        sizes = {key: getattr(self.model, key, None) for key in keys}
        yield from self.parallel.misfits(sizes, tied=False)

    @check
    def _float8_has_whole_tiles(self) -> Iterator[str]:
        # Of the gradient of a matrix, tokens are the side that is summed over, all tokens of a tensor group.
        if self.precision.float8 == "none":
            return
        micro, sequence, parts = self.batch.micro, self.model.sequence, self.parallel.context
        if micro * sequence % (TILE * parts):
            yield (
                f"precision.float8 {self.precision.float8}: batch.micro {micro} x model.sequence {sequence} / "
                f"parallel.context {parts} is not a multiple of {TILE} tokens"
            )

    @check
    def _patience_ends_in_time(self) -> Iterator[str]:
        patience = self.checkpoint.s3.patience_seconds
        if self.checkpoint.storage and 2 * patience > self.limits.save_seconds:
            yield (
                f"checkpoint.s3.patience_seconds {patience:g} must be at most half of limits.save_seconds "
                f"{self.limits.save_seconds:g}"
            )

    @property
    def tokens(self) -> int:
        """Of one step: all that are computed, targets or not."""
        return self.batch.sequences * self.model.sequence

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
