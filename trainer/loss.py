"""Cross entropy straight from the last hidden states: a plain model's output layer returns the loss instead of logits.

Whole logits never exist. With a vocabulary of 128k, those of 8k tokens would take 2 GB in bfloat16 and 4 GB more in
float32; here a chunk of rows at a time is multiplied out, turned into its loss and, in the same place, into its
gradient, and used up at once for the gradients of hidden states and weight. Nothing is computed twice, as a
checkpointed chunk would be (the idea of Liger Kernel's fused linear cross entropy, arXiv 2410.10989).

Losses are sums, divided by the number of targets of all processes together: a mean of each process's mean weighs a
target by how few neighbours it has, and with uneven targets the gradient is wrong.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Replicate

from trainer import products
from trainer.data.batches import IGNORED

NUMBERS = {"cuda": 1 << 27, "cpu": 1 << 22}
"""Logits that exist at a time on one process: half a GiB in float32 on a GPU, where large products run best, and on
a CPU what its caches hold."""


def apply(model: nn.Module, part: int = 0) -> None:
    """Make `model(inputs, targets, over)` return the loss. Before sharding: its hooks go around what is set here.

    `part` says which of equal parts of the tokens of a sequence the inputs are.

    The output layer is called with hidden states and targets, so that FSDP gathers its weight as that of any layer.
    """
    head = model.get_submodule("lm_head")
    if getattr(head, "bias", None) is not None:
        raise NotImplementedError("an output layer with a bias")
    head.forward = partial(_head, head)
    model.forward = partial(_forward, model, part)


def _forward(
    model: nn.Module, part: int, inputs: torch.Tensor, targets: torch.Tensor, over: int
) -> torch.Tensor:
    """Summed loss of (batch, tokens) inputs and targets, divided by `over`: a float32 scalar."""
    # Given, and not counted by the model, because its hidden states may be those of a part of the tokens.
    tokens = inputs.shape[1]
    positions = torch.arange(part * tokens, (part + 1) * tokens, device=inputs.device)[None]
    hidden = model.get_submodule("model")(
        input_ids=inputs, position_ids=positions, use_cache=False
    ).last_hidden_state
    loss: torch.Tensor = model.get_submodule("lm_head")(hidden, targets, over)
    return loss


def _head(head: Any, hidden: torch.Tensor, targets: torch.Tensor, over: int) -> torch.Tensor:
    return summed(hidden, head.weight, targets, over)


def summed(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, over: int = 1) -> torch.Tensor:
    """Sum of the negative log likelihoods, nats, divided by `over`: a float32 scalar.

    Hidden states are (batch, tokens, hidden), the weight (vocabulary, hidden), targets (batch, tokens). A weight
    whose vocabulary is spread over a mesh stays so: each process has logits of its own part only, and rows of
    numbers, not of logits, are exchanged.
    """
    group, first = None, 0
    if isinstance(weight, DTensor):
        mesh = weight.device_mesh
        group, first = mesh.get_group(), mesh.get_local_rank() * (weight.shape[0] // mesh.size())
        weight = weight.to_local()
        if isinstance(hidden, DTensor):
            hidden = hidden.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])
    loss: torch.Tensor = _Fused.apply(
        hidden.flatten(0, 1), weight, targets.flatten(), over, first, group, torch.is_grad_enabled()
    )
    return loss


class _Fused(torch.autograd.Function):
    """Loss, and its gradients already in the forward pass: the logits that they need are there only then."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        wanted: torch.Tensor,
        over: int,
        first: int,
        group: dist.ProcessGroup | None,
        differentiate: bool,
    ) -> torch.Tensor:
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        narrow, wide = hidden.dtype, products.arithmetic(hidden)
        hidden, weight = hidden.to(wide), weight.to(wide)
        hidden_grad = torch.empty_like(hidden) if differentiate else None
        weight_grad = torch.zeros_like(weight) if differentiate else None
        rows = max(1, NUMBERS[hidden.device.type] // len(weight))
        rows = rows - rows % 128 or rows  # whole tiles of a matrix product
        for start in range(0, len(hidden), rows):
            part = hidden[start : start + rows]
            logits = (part @ weight.T).float()
            total += _loss_and_gradient(logits, wanted[start : start + rows], over, first, group)
            if hidden_grad is not None and weight_grad is not None:
                gradient = logits.to(hidden.dtype)
                torch.mm(gradient, weight, out=hidden_grad[start : start + rows])
                weight_grad.addmm_(gradient.T, part)
                del gradient
            del logits  # before the next ones are made
        if hidden_grad is not None and weight_grad is not None:
            ctx.gradients = hidden_grad.to(narrow), weight_grad.to(narrow)
        return total

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        """The caller differentiates the loss itself (a factor of one, or not finite), so rounding does no harm."""
        hidden_grad, weight_grad = ctx.gradients
        del ctx.gradients
        return hidden_grad.mul_(grad), weight_grad.mul_(grad), None, None, None, None, None


def _loss_and_gradient(
    logits: torch.Tensor, wanted: torch.Tensor, over: int, first: int, group: dist.ProcessGroup | None
) -> torch.Tensor:
    """Loss of some rows of float32 logits, which become its gradient in place.

    The logits are those of tokens `first` and on; targets outside of them are other processes', or ignored.
    """
    column = wanted - first
    own = (column >= 0) & (column < logits.shape[-1])
    column = torch.where(own, column, 0)[:, None]
    counted = wanted != IGNORED
    peak = logits.amax(-1, keepdim=True)
    if group is not None:
        dist.all_reduce(peak, dist.ReduceOp.MAX, group=group)
    picked = logits.sub_(peak).gather(-1, column).squeeze(-1).masked_fill_(~own, 0.0)
    mass = logits.exp_().sum(-1)
    if group is not None:
        both = torch.stack([mass, picked])
        dist.all_reduce(both, group=group)
        mass, picked = both
    logits.mul_((counted / (mass * over))[:, None])
    logits.scatter_add_(-1, column, (own / -over)[:, None])
    return torch.where(counted, mass.log() - picked, 0.0).sum() / over
