"""S3: a delete marker can be deleted by its version, like any other (moto 5.2.5 forgets that it may be one)."""

from __future__ import annotations

from moto.s3.models import FakeDeleteMarker


def _dispose(marker: FakeDeleteMarker, garbage: bool = False) -> None:
    """Nothing to free: a marker has no content."""


FakeDeleteMarker.dispose = _dispose
