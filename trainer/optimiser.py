"""AdamW, and the clipping of its gradient."""

from __future__ import annotations

from math import prod

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor

from trainer.config import Optimiser


def build(model: nn.Module, optimiser: Optimiser) -> torch.optim.AdamW:
    """AdamW over float32 parameters; weight decay for matrices only."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": optimiser.weight_decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=optimiser.learning_rate,
        betas=(optimiser.beta1, optimiser.beta2),
        eps=optimiser.epsilon,
        fused=True,
    )


@torch.no_grad()
def clip(model: nn.Module, limit: float | None) -> float:
    """Scale the gradient down to norm `limit` where it is longer; returns its norm before that.

    The norm is of the whole gradient. Each process adds up the squares of its own part of every parameter, divided by
    the number of processes that hold the same part, and one sum over all of them does for any mesh.
    """
    parts: dict[int, list[torch.Tensor]] = {}
    for parameter in model.parameters():
        gradient, holders = parameter.grad, 1
        if isinstance(gradient, DTensor):
            places = zip(gradient.device_mesh.shape, gradient.placements, strict=True)
            holders = prod(size for size, place in places if place.is_replicate())
            gradient = gradient.to_local()
        if gradient is not None:
            parts.setdefault(holders, []).append(gradient)
    squares = [
        torch.stack(torch._foreach_norm(gradients)).double().square().sum() / holders
        for holders, gradients in parts.items()
    ]
    total = torch.stack(squares).sum()
    dist.all_reduce(total)
    norm = total.sqrt()
    if limit is not None:
        factor = (limit / (norm + 1e-6)).clamp(max=1.0).float()
        for gradients in parts.values():
            torch._foreach_mul_(gradients, factor)
    return float(norm)


def set_rate(optimiser: torch.optim.Optimizer, value: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = value
