"""Bfloat16 matrix products on a CPU that has no bfloat16 matrix unit.

There, a product of bfloat16 matrices takes twice as long as one of float32, and attention three times as long
(docs/benchmarks.md). So factors are widened, which changes no value, multiplied in float32, and the result is rounded
once. That is what a bfloat16 product does too: it adds up in float32. Parameters, gradients and what passes from layer
to layer stay bfloat16.
"""

from __future__ import annotations

import platform
from functools import cache, partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@cache
def widened() -> bool:
    """Whether this machine is such a one: x86 without AMX. (Arm's bfloat16 products are as fast as they should be.)"""
    return platform.machine() in ("x86_64", "AMD64") and not torch.cpu._is_amx_tile_supported()


def arithmetic(tensor: torch.Tensor) -> torch.dtype:
    """The type in which to multiply such a tensor: its own, or float32 where that is faster."""
    wide = tensor.dtype is torch.bfloat16 and tensor.device.type == "cpu" and widened()
    return torch.float32 if wide else tensor.dtype


def apply(model: nn.Module, device: torch.device) -> None:
    """Make the linear layers multiply so, if they get bfloat16. Not for layers split by tensor parallelism."""
    if device.type != "cpu" or not widened():
        return
    for name, module in model.named_modules():
        if type(module) is nn.Linear and ".layers." in name:
            module.forward = partial(_linear, module)


def _linear(layer: nn.Linear, inputs: torch.Tensor) -> torch.Tensor:
    """(..., in) to (..., out), as `layer` does it."""
    if inputs.dtype is not torch.bfloat16:
        return functional.linear(inputs, layer.weight, layer.bias)
    result: torch.Tensor = _Linear.apply(inputs, layer.weight, layer.bias)
    return result


class _Linear(torch.autograd.Function):
    """Keeps what a linear layer keeps: its input and its weight, as they are."""

    @staticmethod
    def forward(
        ctx: Any, inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(inputs, weight)
        return functional.linear(inputs.float(), weight.float(), None if bias is None else bias.float()).to(
            inputs.dtype
        )

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        inputs, weight = ctx.saved_tensors
        wide = gradient.float()
        of_inputs = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_inputs = (wide @ weight.float()).to(inputs.dtype)
        if ctx.needs_input_grad[1]:
            of_weight = (wide.flatten(0, -2).T @ inputs.float().flatten(0, -2)).to(weight.dtype)
        if ctx.needs_input_grad[2]:
            of_bias = wide.flatten(0, -2).sum(0).to(weight.dtype)
        return of_inputs, of_weight, of_bias
