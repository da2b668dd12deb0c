"""SwiGLU that keeps its inputs only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trainer import jobs
from tests.trainer.derivatives import assert_exact, drawn, kept

pytestmark = pytest.mark.processes  # imports torch


def network(activation: str, tmp_path: Path) -> Any:
    """The feed-forward network of a block, 16 wide inside, and whether it was made to do so."""
    import torch

    from trainer import model as models
    from trainer import swiglu

    shape = models.shape(jobs.job(tmp_path).model)
    shape.hidden_act = activation
    built = models.build(shape)
    models.materialise(built, torch.device("cpu"))
    models.initialise(built, 0.2, 1)
    swiglu.apply(built)
    return models.blocks(built)[0].get_submodule("mlp")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_result_and_gradients(dtype: str) -> None:
    import torch
    from torch.nn import functional

    from trainer.swiglu import _Gated

    torch.manual_seed(1)
    leaves = [drawn(2, 30, 16, dtype=dtype), drawn(2, 30, 16, dtype=dtype)]
    gradient = drawn(2, 30, 16, dtype=dtype).detach()
    assert_exact(_Gated.apply, lambda gate, other: functional.silu(gate) * other, leaves, gradient)
    assert kept(_Gated.apply, leaves) == 0


@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_a_network_is_what_it_was(activation: str, tmp_path: Path) -> None:
    import torch

    ours = network(activation, tmp_path)
    assert ("forward" in vars(ours)) == (activation == "silu")
    leaves = [drawn(2, 30, ours.hidden_size, dtype="float32")]
    torch.testing.assert_close(ours(*leaves), type(ours).forward(ours, *leaves))
    three, four = (kept(one, leaves) for one in (ours, lambda inputs: type(ours).forward(ours, inputs)))
    weights = sum(each.weight.nbytes for each in (ours.gate_proj, ours.up_proj, ours.down_proj))
    width = 2 * 30 * 4 * ours.intermediate_size
    assert four - weights >= 4 * width
    assert three - weights == 3 * width if activation == "silu" else three == four
