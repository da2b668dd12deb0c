"""Rotary position embeddings (arXiv 2104.09864): pairs of numbers of queries and keys turned by an angle.

`transformers` swaps halves, negates, joins, multiplies twice and adds, and the backward pass does as much again with
zeros to fill in. Here each half is added to the other where it stands; the gradient is turned back by the same angle.
"""

from __future__ import annotations

from typing import Any

import torch


def turned(
    query: torch.Tensor, key: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries and keys are (batch, heads, tokens, head size); cosines and sines (1, tokens, head size), with the same
    angles in both halves."""
    both: tuple[torch.Tensor, torch.Tensor] = _Turned.apply(query, key, cosines, sines)
    return both


class _Turned(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: torch.Tensor, key: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
    ) -> Any:
        ctx.save_for_backward(cosines, sines)
        return _turn(query, cosines, sines, 1), _turn(key, cosines, sines, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        cosines, sines = ctx.saved_tensors  # once: under recomputation they can't be read again
        query, key = (_turn(gradient, cosines, sines, -1) for gradient in gradients)
        return query, key, None, None


def _turn(numbers: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, sign: int) -> torch.Tensor:
    """(a, b) to (a cos - b sin, b cos + a sin), of halves a and b; with sign -1 the other way round."""
    cosines, sines = cosines[:, None], sines[:, None]
    half = numbers.shape[-1] // 2
    result = numbers * cosines
    result[..., :half].addcmul_(numbers[..., half:], sines[..., :half], value=-sign)
    result[..., half:].addcmul_(numbers[..., :half], sines[..., half:], value=sign)
    return result
