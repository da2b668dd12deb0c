"""AdamW."""

from __future__ import annotations

import torch
from torch import nn

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


def set_rate(optimiser: torch.optim.Optimizer, value: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = value
