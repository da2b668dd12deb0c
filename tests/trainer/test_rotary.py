"""Rotary embeddings, against those of `transformers`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trainer.derivatives import assert_exact, drawn, kept

pytestmark = pytest.mark.processes  # imports torch


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_result_and_gradients(dtype: str) -> None:
    import torch
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    from trainer import rotary

    torch.manual_seed(1)
    angles = torch.randn(1, 24, 8).repeat(1, 1, 2)
    turns = angles.cos().to(getattr(torch, dtype)), angles.sin().to(getattr(torch, dtype))
    leaves = [drawn(2, 24, heads, 16, dtype=dtype) for heads in (4, 2)]

    def ours(*leaves: Any) -> Any:
        query, key = rotary.turned(*(leaf.transpose(1, 2) for leaf in leaves), *turns)
        assert query.stride() == leaves[0].transpose(1, 2).stride(), "attention would copy it"
        return torch.cat([query, key], 1)

    def plain(*leaves: Any) -> Any:
        exact = (turn.double() for turn in turns)
        return torch.cat(apply_rotary_pos_emb(*(leaf.transpose(1, 2) for leaf in leaves), *exact), 1)

    assert_exact(ours, plain, leaves, drawn(2, 6, 24, 16, dtype=dtype).detach())
    assert kept(ours, leaves) == sum(turn.nbytes for turn in turns)
