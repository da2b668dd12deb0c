"""SwiGLU (arXiv 2002.05202) that keeps its two inputs for the backward pass, and not what it computed from them.

In the feed-forward network of a block, `transformers` has autograd keep four results as wide as the network: gate, its
activation, the other half, their product. The activation is computed again here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from trainer.model import blocks


def apply(model: nn.Module) -> None:
    """Make every block of a plain model do so. Before tensor parallelism: its hooks go around what is set here.
    A published model with another activation is left as it is."""
    if model.config.hidden_act not in ("silu", "swish"):
        return
    for layer in blocks(model):
        network = layer.get_submodule("mlp")
        network.forward = partial(_feed_forward, network)


def _feed_forward(network: Any, inputs: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = network.down_proj(_Gated.apply(network.gate_proj(inputs), network.up_proj(inputs)))
    return result


class _Gated(torch.autograd.Function):
    """silu(gate) x other."""

    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate, other)
        return functional.silu(gate).mul_(other)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        gate, other = ctx.saved_tensors
        of_activated = gradient * other
        of_gate = torch.ops.aten.silu_backward(of_activated, gate)
        del of_activated
        return of_gate, functional.silu(gate).mul_(gradient)
