"""Which storage a job file means."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from trainer.checkpoint.s3 import S3Store
from trainer.checkpoint.storage import Place, Storage
from trainer.checkpoint.store import Store
from trainer.config import Job
from trainer.objects import MIB, Objects, parse
from trainer.objects.pace import Rate

SHARE_FOR_UPLOAD = 0.8
"""Of limits.save_seconds: what is left is for giving up in time, so that a slow upload is a failed save and no more."""


def storage(job: Job, place: Place | None = None) -> Storage:
    """Of a run's checkpoints, on this process (by default the only one)."""
    place = place or Place()
    if job.checkpoint.storage is None:
        return Store(job.output / "checkpoints", place)
    address, s3 = parse(job.checkpoint.storage).below(job.name), job.checkpoint.s3
    staging = s3.staging or Path(tempfile.gettempdir()) / "shardyard"
    return S3Store(
        address,
        staging / f"{job.name}-{hashlib.sha256(str(address).encode()).hexdigest()[:12]}",
        Objects(
            address.bucket,
            rate=Rate(s3.requests_per_second / place.nodes),
            patience=s3.patience_seconds,
            threads=s3.threads,
        ),
        place,
        part_bytes=s3.part_mib * MIB,
        upload_seconds=SHARE_FOR_UPLOAD * job.limits.save_seconds,
    )
