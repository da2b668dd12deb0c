"""Tensor and sequence parallel: the matrices of a block split among the processes of a tensor group.

Within attention and the feed-forward network each process has some heads, or some columns, and all tokens; between
them (norms, residuals) it has all columns and some tokens. So both weights and activations are split, and what one
would add up (all-reduce) is added up and scattered, then gathered where it is needed (arXiv 2205.05198).

The embedding is split by its columns: looking up needs no mask then, and its gradient stays local. The output layer
is split by the vocabulary, and the loss is computed where the logits are (loss.py).
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from trainer import exits
from trainer.config import Parallel
from trainer.model import blocks
from trainer.shapes import Shape

TOKENS = Shard(1)
"""Of activations, (batch, tokens, hidden)."""


def check(parallel: Parallel, shape: Shape, sequence: int) -> None:
    """Raises exits.Failure with status CONFIG where a model can't be split, along its sizes or its tokens."""
    keys = ("hidden", "heads", "kv_heads", "feed_forward", "vocabulary")
    sizes = {key: getattr(shape, key) for key in keys} | {"sequence": sequence}
    if problems := parallel.misfits(sizes, tied=shape.tied):
        raise exits.Failure("; ".join(problems), exits.CONFIG)


def apply(model: nn.Module, mesh: DeviceMesh) -> None:
    """Split a plain model over a mesh of one dimension."""
    plan: dict[str, Any] = {
        "model.embed_tokens": ColwiseParallel(input_layouts=Replicate(), output_layouts=TOKENS),
        "model.norm": SequenceParallel(),
    }
    parallelize_module(model, mesh, plan, src_data_rank=None)
    for layer in blocks(model):
        parallelize_module(layer, mesh, _block(), src_data_rank=None)
    head = model.get_submodule("lm_head")
    weight = distribute_tensor(head.weight.detach(), mesh, [Shard(0)], src_data_rank=None)
    head.weight = nn.Parameter(weight)


def _block() -> dict[str, Any]:
    """Styles of a block's parts. Activations enter and leave it split by tokens, as plain tensors."""
    return {
        "input_layernorm": SequenceParallel(),
        "self_attn": PrepareModuleInput(
            input_kwarg_layouts={"hidden_states": TOKENS},
            desired_input_kwarg_layouts={"hidden_states": Replicate()},
        ),
        "self_attn.q_proj": ColwiseParallel(),
        "self_attn.k_proj": ColwiseParallel(),
        "self_attn.v_proj": ColwiseParallel(),
        "self_attn.o_proj": RowwiseParallel(output_layouts=TOKENS),
        "post_attention_layernorm": SequenceParallel(),
        "mlp": PrepareModuleInput(input_layouts=(TOKENS,), desired_input_layouts=(Replicate(),)),
        "mlp.gate_proj": ColwiseParallel(),
        "mlp.up_proj": ColwiseParallel(),
        "mlp.down_proj": RowwiseParallel(output_layouts=TOKENS),
    }
