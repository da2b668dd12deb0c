"""RMSNorm that keeps its input only."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trainer.derivatives import assert_exact, drawn, kept

pytestmark = pytest.mark.processes  # imports torch

EPSILON = 1e-3
"""Large enough to tell whether it is there."""


def plain(inputs: Any, weight: Any) -> Any:
    from torch.nn import functional

    return functional.rms_norm(inputs, weight.shape, weight, EPSILON)


def ours(inputs: Any, weight: Any) -> Any:
    from trainer import norms

    return norms.normalised(inputs, weight, EPSILON)


def leaves(dtype: str) -> list[Any]:
    import torch

    torch.manual_seed(1)
    return [drawn(3, 40, 96, dtype=dtype), drawn(96, dtype=dtype)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", [1.0, 1e-3], ids=["usual", "as small as epsilon"])
def test_result_and_gradients(dtype: str, size: float) -> None:
    inputs, weight = leaves(dtype)
    inputs = (inputs.detach() * size).requires_grad_()
    assert_exact(ours, plain, [inputs, weight], drawn(3, 40, 96, dtype=dtype).detach())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_it_keeps(dtype: str) -> None:
    """One float32 number a token."""
    assert kept(ours, leaves(dtype)) == 3 * 40 * 4
