"""What is kept of a run, and where."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from trainer import objects
from trainer.config.section import Count, Positive, Seconds, Section, check


def _address(storage: str) -> str:
    expanded = os.path.expandvars(storage)
    if "$" in expanded:
        raise ValueError(f"{storage!r} names a variable that the environment does not have")
    objects.parse(expanded)
    return expanded


class S3(Section):
    """How S3 is spoken to when checkpoints go there."""

    staging: Path | None = None
    """Folder on each node, with room for that node's share of a checkpoint, that is uploaded from; by default under
    the system's folder for temporary files (a node's NVMe in a pod)."""
    part_mib: Annotated[int, Field(ge=5, le=5120, strict=True)] = 64
    """Size of one part of an upload, in MiB."""
    requests_per_second: Annotated[float, Field(gt=0)] = 1000.0
    """Of all nodes together. S3 serves 3,500 writes a second and partition, fewer while a new one warms up."""
    threads: Positive = 8
    """Parts that one node sends at the same time, each held in memory."""
    patience_seconds: Seconds = 120
    """How long one request is tried again while S3 is busy or out of reach."""


class Checkpoint(Section):
    """When to save, where to, and what to keep. The last step and a termination always save."""

    storage: Annotated[str, AfterValidator(_address)] | None = None
    """`s3://bucket/prefix`: checkpoints go below PREFIX/NAME there (NAME of the job), and not below `output`.
    `${VARIABLE}` in it is taken from the environment."""
    s3: S3 = S3()

    every: Count = 0
    """Steps between two saves; 0 saves at the end only."""
    minutes: Seconds | None = None
    """Also save when this much time has passed."""
    keep: Positive = 2
    """Newest checkpoints to keep."""
    keep_every: Positive | None = None
    """Also keep each one whose step is a multiple of this."""
    asynchronous: bool = False
    """Write in the background while training goes on."""

    @check
    def _s3_needs_storage(self) -> Iterator[str]:
        if self.storage is None and self.s3 != S3():
            yield "s3 says how to reach storage, and there is none: give storage: s3://bucket/prefix"
