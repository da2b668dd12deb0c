"""What FSDP has processes exchange, done in the way that suits gloo.

gloo has no reduce-scatter: PyTorch all-reduces everything there and keeps a part (its pull request 118911). Here each
process gets everybody's part of what is its own and adds it up, in the order of ranks: half the bytes on the wire,
half of the additions. And without a GPU's streams FSDP waits for every gather at once; here gloo's own threads gather
the next block while this one computes, and FSDP waits when it needs the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist


class _Memory:
    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """What FSDP hands in or gets out."""
        return torch.empty(*size, dtype=dtype, device=device)


class AllGather(_Memory):
    """For FSDPModule.set_custom_all_gather."""

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        async_op: bool = False,
    ) -> dist.Work | None:
        """n numbers of each process, (world x n) of which come out once the returned work is waited for."""
        return dist.all_gather_into_tensor(output_tensor, input_tensor, group=group, async_op=True)


class ReduceScatter(_Memory):
    """For FSDPModule.set_custom_reduce_scatter."""

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: dist.ReduceOp.RedOpType,
        async_op: bool = False,
    ) -> None:
        """Sums of (world x n) numbers of each process, n of which come out. Done when it returns."""
        if op != dist.ReduceOp.SUM or async_op:
            raise NotImplementedError(f"only sums, and only at once: {op}, {async_op}")
        if group.size() == 1:  # torch 2.9 asks for this too
            output_tensor.copy_(input_tensor)
            return
        parts = torch.empty_like(input_tensor)
        dist.all_to_all_single(parts, input_tensor, group=group)
        first, second, *others = parts.view(group.size(), -1)
        torch.add(first, second, out=output_tensor)
        for other in others:
            output_tensor.add_(other)
