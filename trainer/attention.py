"""Attention as every job here needs it: causal, without a mask made from the positions of a part of the tokens.

`transformers` makes a mask from the shape of its embeddings, which under sequence parallelism is that of a part, and
looks for packed sequences in the positions, for which a GPU is waited for in every pass. Attention under a name that
it doesn't know gets no mask at all.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from trainer import products, rotary
from trainer.context import Exchange
from trainer.model import blocks

NAME = "causal"


def apply(model: nn.Module, group: dist.ProcessGroup | None) -> None:
    """Make the model's blocks attend so. The processes of a group have a part of the tokens each. Before tensor
    parallelism: its hooks go around what is set here."""
    model.config._attn_implementation = NAME
    for layer in blocks(model):
        module: Any = layer.get_submodule("self_attn")
        module.forward = partial(_attention, module, group)


def _attention(
    module: Any,
    group: dist.ProcessGroup | None,
    *,
    hidden_states: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """(batch, tokens, hidden) to the same, as a block calls it."""
    shape = (*hidden_states.shape[:-1], -1, module.head_dim)
    query, key, value = (
        project(hidden_states).view(shape).transpose(1, 2)
        for project in (module.q_proj, module.k_proj, module.v_proj)
    )
    query, key = rotary.turned(query, key, *position_embeddings)
    result = causal(query, key, value, seen(module), group)
    return module.o_proj(result.flatten(2)), None


def seen(module: Any) -> int | None:
    """How many tokens each token of a layer attends to, itself included; None for all before it. Qwen2's layers have
    a window each or none, Mistral's that of the model."""
    limit: int | None = getattr(module, "sliding_window", getattr(module.config, "sliding_window", None))
    return limit


def causal(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    limit: int | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """PyTorch's fused attention over (batch, heads, tokens, head size), queries perhaps with more heads than the
    others; a mask only for a window of fewer tokens than there are. Returns (batch, tokens, heads, head size)."""
    if group is not None:
        query, key, value = (Exchange.apply(each, 1, 2, group) for each in (query, key, value))
    mask, tokens, sharing = None, query.shape[2], query.shape[1] // key.shape[1]
    if limit is not None and limit < tokens:
        mask = window(tokens, limit, query.device)
        # Fused kernels take a mask, or shared keys, not both.
        key, value = (each.repeat_interleave(sharing, 1) for each in (key, value))
    narrow, wide = query.dtype, products.arithmetic(query)
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    result = functional.scaled_dot_product_attention(
        query, key, value, mask, is_causal=mask is None, enable_gqa=key.shape[1] < query.shape[1]
    )
    result = result.transpose(1, 2).to(narrow)
    return result if group is None else Exchange.apply(result, 1, 2, group)


@lru_cache(maxsize=1)
def window(tokens: int, size: int, device: torch.device) -> torch.Tensor:
    """Which of (tokens, tokens) are seen: itself and the `size` - 1 before. One for all blocks and passes."""
    places = torch.arange(tokens, device=device)
    distance = places[:, None] - places[None, :]
    return (distance >= 0) & (distance < size)
