"""Jobs that split more than parameters: matrices, tokens, digits. One group of four processes runs all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trainer.conftest import Outcome
from tests.trainer.jobs import merged

BOUND = 1e-5
"""Relative, for losses, norms and weights: what another order of summation does in twelve steps."""

TENSOR: dict[str, Any] = {"parallel": {"tensor": 2}}
CONSTANT: dict[str, Any] = {"schedule": {"warmup": 2, "floor": 1.0}, "checkpoint": {"keep": 9}}
"""A rate that doesn't depend on the number of steps, so that a job may stop in the middle and go on as another."""


def split(**changes: Any) -> dict[str, Any]:
    return merged(TENSOR, changes)


UNEVEN = {"feed_forward": 66, "vocabulary": 386}
"""What a tensor group of two halves, and its two shards don't: 33 and 193 rows."""
MISTRAL = {"family": "mistral", "sliding_window": 16}
QWEN2 = {"family": "qwen2"}
"""With biases, which are split along the columns of their matrices."""
FLOAT8: dict[str, Any] = {"precision": {"compute": "bfloat16", "float8": "rowwise"}}

CASES: dict[str, dict[str, Any]] = {
    "tensor": split(),
    "tensor-hybrid": split(parallel={"strategy": "HYBRID_SHARD", "shard_size": 2}, batch={"micro": 1}),
    "tensor-copies": split(parallel={"strategy": "NO_SHARD"}, batch={"micro": 3}),
    "tensor-recompute": split(recompute={"mode": "full"}, parallel={"accumulate": "whole", "prefetch": 2}),
    "tensor-answers": split(
        parallel={"strategy": "SHARD_GRAD_OP"}, recompute={"mode": "selective"}, batch={"micro": 1}
    ),
    "tensor-alone": {"parallel": {"tensor": 4}, "model": {"kv_heads": 4}},
    "tensor-uneven": split(model=UNEVEN),
    "tensor-mistral": split(model=MISTRAL),
    "tensor-qwen2": split(model=QWEN2),
    "tensor-bfloat16": split(precision={"compute": "bfloat16"}),
    "float8-rowwise": FLOAT8,
    "float8-tensorwise": merged(
        FLOAT8, {"precision": {"float8": "tensorwise"}, "recompute": {"mode": "full"}}
    ),
    "float8-selective": merged(FLOAT8, {"recompute": {"mode": "selective"}, "steps": 4}),
    "float8-tensor": merged(split(steps=4), FLOAT8),
    "float8-tensor-tensorwise": merged(
        split(steps=4), merged(FLOAT8, {"precision": {"float8": "tensorwise"}})
    ),
    "context": {"parallel": {"context": 2}, "recompute": {"mode": "full"}},
    "context-tensor": split(parallel={"context": 2}, model={"kv_heads": 4}),
    "context-answers": {"parallel": {"context": 2, "strategy": "HYBRID_SHARD", "shard_size": 2}},
    "context-bfloat16": {"parallel": {"context": 2}, "precision": {"compute": "bfloat16"}, "steps": 4},
    "tensor-loaded": split(steps=3, optimiser={"learning_rate": 1e-30, "weight_decay": 0.0}),
    "tensor-first": split(steps=6, **CONSTANT),
    "then-plain": {"output": "tensor-first", **CONSTANT},
    "plain-first": {"steps": 6, **CONSTANT},
    "then-tensor": split(output="plain-first", **CONSTANT),
}

SOAK = {
    "tensor-hybrid", "tensor-copies", "tensor-recompute", "float8-tensor-tensorwise", "context-tensor",
}  # fmt: skip
"""Combinations of what the gate has apart, or together in test_mesh.py's eight processes."""

REFERENCES: dict[str, dict[str, Any]] = {
    "tensor": {},
    "tensor-answers": {},
    "tensor-alone": {"model": {"kv_heads": 4}},
    "tensor-uneven": {"model": UNEVEN},
    "tensor-mistral": {"model": MISTRAL},
    "tensor-qwen2": {"model": QWEN2},
    "then-plain": CONSTANT,
}
"""Plain trainings to compare with: on the data of these cases, changed like this."""
_ALIKE = {"context-answers": "tensor-answers", "context-tensor": "tensor-alone", "then-tensor": "then-plain"}


def reference_of(name: str) -> str:
    """The case on whose data the reference of `name` was trained."""
    name = _ALIKE.get(name, name)
    return name if name in REFERENCES else "tensor"


def check_equal(outcome: Outcome, plain: Any) -> None:
    """Losses, norms and final weights."""
    assert outcome.status == 0, outcome.message
    assert outcome.losses == pytest.approx(plain.losses, rel=BOUND)
    assert outcome.norms == pytest.approx(plain.norms, rel=10 * BOUND)
    assert max(plain.norms) > 1.0, "nothing was clipped"
    weights = outcome.weights(12)
    assert set(weights) == set(plain.weights)
    for key, value in plain.weights.items():
        assert float((weights[key] - value).norm() / value.norm()) < BOUND, key
