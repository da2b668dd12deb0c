"""Context parallel: long sequences spread over the processes of a context group.

Each process has some of the tokens of a sequence, all through the model, the loss and the gradient: for everything
but attention that is the same as having sequences of its own. Around attention, one exchange gives each process all
tokens of some heads and a second gives them back (DeepSpeed Ulysses, arXiv 2309.14509), so that the fused causal
kernel runs as it is, every process has equally much to do, and positions are right because each knows its first one.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from trainer.data.batches import IGNORED, Micro
from trainer.mesh import Layout


def parts(micros: list[Micro], layout: Layout) -> list[Micro]:
    """Of each sequence, the tokens of this process."""
    return micros if layout.context == 1 else [_part(micro, layout) for micro in micros]


def _part(micro: Micro, layout: Layout) -> Micro:
    inputs, targets = (
        whole.chunk(layout.context, 1)[layout.context_rank] for whole in (micro.inputs, micro.targets)
    )
    return Micro(inputs, targets, int((targets != IGNORED).sum()))


class Exchange(torch.autograd.Function):
    """Keep one part of many along `split`, and get everybody's along `gather` for it. The gradient goes back."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, split: int, gather: int, group: dist.ProcessGroup
    ) -> torch.Tensor:
        ctx.back = gather, split, group
        return _exchanged(tensor, split, gather, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return _exchanged(gradient, *ctx.back), None, None, None


def _exchanged(tensor: torch.Tensor, split: int, gather: int, group: dist.ProcessGroup) -> torch.Tensor:
    """The size along `split` is a multiple of the group's (config.Parallel.misfits sees to that)."""
    sent = torch.stack(tensor.chunk(dist.get_world_size(group), split))
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent, group=group)
    return torch.cat(received.unbind(), gather)
