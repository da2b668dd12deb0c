"""torch.compile, block by block."""

from __future__ import annotations

from torch import nn

from trainer.model import blocks


def apply(model: nn.Module) -> None:
    """Compile each block in place. All blocks have the same code, so it is compiled once. A wrapper, instead of
    the method, would go past FSDP's hooks (accelerate PR 4022)."""
    for layer in blocks(model):
        layer.compile()
