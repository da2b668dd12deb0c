"""RMSNorm that keeps its input for the backward pass, and what was divided by, instead of three results in between.

`transformers` writes the norm (arXiv 1910.07467) operation by operation, so autograd keeps the input in float32, the
normalised and the scaled result. Here only the input is kept as it came and one float32 number a token; the rest is
computed again, which costs less than reading it from memory did. On a GPU that is PyTorch's fused kernel.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Partial
from torch.nn import functional


def apply(model: nn.Module) -> None:
    """Make every norm of a plain model do so. Before tensor parallelism: its hooks go around what is set here."""
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in ("input_layernorm", "post_attention_layernorm", "norm"):
            module.forward = partial(_norm, module)


def _norm(module: Any, hidden: torch.Tensor) -> torch.Tensor:
    """(batch, tokens, hidden), of which a tensor group's processes have some tokens each."""
    if not isinstance(hidden, DTensor):
        return normalised(hidden, module.weight, module.variance_epsilon)
    weight = module.weight.to_local(grad_placements=[Partial()])  # each has the gradient from its own tokens
    result = normalised(hidden.to_local(), weight, module.variance_epsilon)
    return DTensor.from_local(result, hidden.device_mesh, hidden.placements, run_check=False)


def normalised(inputs: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
    """inputs / sqrt(mean(inputs^2) + epsilon) x weight over the last dimension, counted in float32."""
    if inputs.device.type == "cuda":
        return functional.rms_norm(inputs, weight.shape, weight, epsilon)
    result: torch.Tensor = _Norm.apply(inputs, weight, epsilon)
    return result


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: torch.Tensor, weight: torch.Tensor, epsilon: float) -> torch.Tensor:
        wide = inputs.float()
        length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
        scale = length.square_().div_(inputs.shape[-1]).add_(epsilon).rsqrt_()
        ctx.save_for_backward(inputs, weight, scale)
        return (wide * scale).to(inputs.dtype).mul_(weight)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        """With y = x s w and s = (mean(x^2) + e)^-1/2: dx = s (g w - x s^2 mean(g w x)), dw = sum(g x s)."""
        inputs, weight, scale = ctx.saved_tensors
        wide, gradient, rows = inputs.float(), gradient.float(), scale.flatten()
        product = gradient * wide
        flat = product.flatten(0, -2)
        of_weight = torch.mv(flat.T, rows)
        along = torch.mv(flat, weight.float()).mul_(rows.pow(3)).div_(-inputs.shape[-1])
        of_inputs = torch.mul(gradient, weight, out=product).mul_(scale)
        of_inputs.addcmul_(wide, along.view_as(scale))
        return of_inputs.to(inputs.dtype), of_weight.to(weight.dtype), None
