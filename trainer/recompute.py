"""Activation checkpointing, block by block."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from trainer.config import Recompute
from trainer.model import blocks

KEPT = {
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
}
"""Results worth their memory in selective mode: attention costs the most to compute again and keeps the least."""
MATMULS = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten._scaled_mm.default}


def _selective() -> Any:
    """Keep attention and every second matmul (torchtitan's rule), compute the rest again."""
    seen = {False: 0, True: 0}

    def decide(context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        if operator in KEPT:
            return CheckpointPolicy.MUST_SAVE
        if operator in MATMULS:
            seen[context.is_recompute] += 1
            if seen[context.is_recompute] % 2:
                return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(decide)


def apply(model: nn.Module, recompute: Recompute) -> None:
    """Mark every Nth block. Its class calls the function set here around its own forward pass, so nothing is
    wrapped and no parameter changes its name."""
    if recompute.mode == "none":
        return
    extra = {"context_fn": _selective} if recompute.mode == "selective" else {}
    around: Any = partial(checkpoint, use_reentrant=False, preserve_rng_state=False, **extra)
    for layer in blocks(model)[:: recompute.every]:
        layer.gradient_checkpointing = True
        layer._gradient_checkpointing_func = around
