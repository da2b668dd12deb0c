"""Float8 matrix products in the transformer blocks, by torchao.

`tensorwise` scales each matrix by one number, which is fastest; `rowwise` each row and column by its own, which is
more exact. Parameters, and what travels between processes, stay as precision.compute says. Embedding and output layer
are left as they are, and so is every matrix of which a process has sides that are no multiples of 16: tensor cores
take no others. Where there is no such hardware (a CPU) the arithmetic is emulated: for tests, not for speed.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from trainer import exits
from trainer.config import TILE, Precision

CAPABILITY = (8, 9)
"""Of the first GPUs with float8 (Ada; H100 has 9.0, A100 8.0)."""


def apply(model: nn.Module, precision: Precision, device: torch.device, tensor: int) -> None:
    """Replace the linear layers of the blocks. Before they are split among `tensor` processes.

    Raises exits.Failure with status CONFIG on a GPU without float8.
    """
    if precision.float8 == "none":
        return
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < CAPABILITY:
        name = torch.cuda.get_device_name(device)
        raise exits.Failure(
            f"precision.float8 {precision.float8}: {name} has no float8; set it to none", exits.CONFIG
        )
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    config = replace(Float8LinearConfig.from_recipe_name(precision.float8), emulate=device.type != "cuda")
    convert_to_float8_training(
        model, config=config, module_filter_fn=lambda module, name: fits(module, name, tensor)
    )


def fits(module: nn.Module, name: str, tensor: int) -> bool:
    """Whether a linear layer is to compute in float8."""
    sides = (module.in_features, module.out_features)
    return ".layers." in name and all(side % (TILE * tensor) == 0 for side in sides)


def left_out(model: nn.Module) -> list[str]:
    """Linear layers of the first block that compute as before, by name. All blocks are alike."""
    first = model.get_submodule("model.layers.0")
    return [name for name, module in first.named_modules() if type(module) is nn.Linear]
