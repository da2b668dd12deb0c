"""Jobs that split more than parameters: tensor groups and narrow arithmetic. One group of four processes runs all."""

from __future__ import annotations

from typing import Any

from tests.trainer.jobs import merged

TENSOR: dict[str, Any] = {"parallel": {"tensor": 2}}
CONSTANT: dict[str, Any] = {"schedule": {"warmup": 2, "floor": 1.0}, "checkpoint": {"keep": 9}}
"""A rate that doesn't depend on the number of steps, so that a job may stop in the middle and go on as another."""


def split(**changes: Any) -> dict[str, Any]:
    return merged(TENSOR, changes)


FLOAT8: dict[str, Any] = {"precision": {"compute": "bfloat16", "float8": "rowwise"}}

CASES: dict[str, dict[str, Any]] = {
    "tensor": split(),
    "tensor-grad-op": split(parallel={"strategy": "SHARD_GRAD_OP"}, recompute={"mode": "selective"}),
    "tensor-hybrid": split(parallel={"strategy": "HYBRID_SHARD", "shard_size": 2}, batch={"micro": 1}),
    "tensor-copies": split(parallel={"strategy": "NO_SHARD"}),
    "tensor-recompute": split(recompute={"mode": "full"}, parallel={"accumulate": "whole", "prefetch": 2}),
    "tensor-uneven": split(batch={"micro": 3}),
    "tensor-answers": split(batch={"micro": 1}),
    "tensor-alone": {"parallel": {"tensor": 4}, "model": {"kv_heads": 4}},
    "tensor-bfloat16": split(precision={"compute": "bfloat16"}),
    "float8-rowwise": FLOAT8,
    "float8-tensorwise": merged(
        FLOAT8, {"precision": {"float8": "tensorwise"}, "recompute": {"mode": "full"}}
    ),
    "float8-selective": merged(FLOAT8, {"recompute": {"mode": "selective"}, "steps": 4}),
    "float8-tensor": merged(split(steps=4), FLOAT8),
    "tensor-loaded": split(steps=3, optimiser={"learning_rate": 1e-30, "weight_decay": 0.0}),
    "tensor-first": split(steps=6, **CONSTANT),
    "then-plain": {"output": "tensor-first", **CONSTANT},
    "plain-first": {"steps": 6, **CONSTANT},
    "then-tensor": split(output="plain-first", **CONSTANT),
}
