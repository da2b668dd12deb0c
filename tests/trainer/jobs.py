"""Small jobs for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from trainer import config
from trainer.config.model import SIZES

TINY: dict[str, Any] = {
    "name": "tiny",
    "seed": 5,
    "steps": 12,
    "model": {
        "vocabulary": 384, "hidden": 32, "layers": 2, "heads": 4, "kv_heads": 2, "feed_forward": 64, "sequence": 64,
    },
    "data": {"source": "python-documentation"},
    "batch": {"sequences": 8, "micro": 2},
    "precision": {"compute": "float32", "reduce": "float32"},
    "optimiser": {"learning_rate": 5e-3, "epsilon": 1e-6},
    "schedule": {"warmup": 2},
    "evaluate": {"sequences": 8},
    "metrics": {"every": 1, "port": None},
    "limits": {"start_seconds": 120, "collective_seconds": 60, "save_seconds": 60, "threads": 1},
}  # fmt: skip


SHAPE = SIZES
"""Keys of the model that a Hugging Face folder takes the place of."""


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A copy of `base` with nested `changes` laid over it."""
    result = dict(base)
    for key, value in changes.items():
        below = base.get(key)
        result[key] = merged(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return result


def job(output: Path, **changes: Any) -> config.Job:
    return config.Job.model_validate(merged(TINY, {"output": str(output), **changes}))


def write(path: Path, output: Path, **changes: Any) -> Path:
    """Write a job file; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(merged(TINY, {"output": str(output), **changes})))
    return path
