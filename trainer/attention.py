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

from trainer import products
from trainer.context import Exchange

NAME = "causal"


def apply(model: nn.Module, group: dist.ProcessGroup | None) -> None:
    """Make the model's blocks call `causal`. The processes of a group have a part of the tokens each."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, partial(causal, group))
    model.config._attn_implementation = NAME


def causal(
    group: dist.ProcessGroup | None,
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    sliding_window: int | None = None,
    **settings: Any,
) -> tuple[torch.Tensor, None]:
    """PyTorch's fused attention over (batch, heads, tokens, head size); a mask only for a window shorter than that.
    Returns (batch, tokens, heads, head size)."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if group is not None:
        query, key, value = (Exchange.apply(each, 1, 2, group) for each in (query, key, value))
    tokens = query.shape[2]
    mask = None
    if sliding_window is not None and sliding_window < tokens:
        mask = window(tokens, sliding_window, query.device)
    narrow, wide = query.dtype, products.arithmetic(query)
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    result: torch.Tensor = sdpa_attention_forward(module, query, key, value, mask, **settings)[0].to(narrow)
    return (result if group is None else Exchange.apply(result, 1, 2, group)), None


@lru_cache(maxsize=1)
def window(tokens: int, size: int, device: torch.device) -> torch.Tensor:
    """Which of (tokens, tokens) are seen: itself and the `size` - 1 before. One for all blocks and passes."""
    places = torch.arange(tokens, device=device)
    distance = places[:, None] - places[None, :]
    return (distance >= 0) & (distance < size)
