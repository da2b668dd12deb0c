"""How a model is spread over processes, and what it computes with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

from trainer.config.section import Positive, Section, check


class Parallel(Section):
    """How the model and its optimiser are spread over the processes."""

    tensor: Positive = 1
    """Processes, of one node, that split every matrix and the tokens between matrices among themselves. They have
    the same sequences; `strategy` spreads what each of them holds over the others."""
    context: Positive = 1
    """Processes that share the tokens of each sequence, for sequences too long for one. Around attention they exchange
    tokens for heads."""
    strategy: Literal["FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "NO_SHARD"] = "FULL_SHARD"
    shard_size: Positive | None = None
    """HYBRID_SHARD only: processes that share one copy of the model, tensor groups and all; by default those of one
    node."""
    prefetch: Positive = 1
    """Blocks whose parameters are gathered ahead of the one that computes (1 is FSDP's own habit)."""
    accumulate: Literal["sharded", "whole"] = "sharded"
    """Gradients between the passes of one step: `sharded` adds each pass to this process's shard (and copies of the
    model exchange theirs after the last pass only); `whole` reduces nothing before the last pass, for the memory of
    the whole gradient on each process."""
    cpu_offload: bool = False
    """Keep parameters, gradients and optimiser state in the host's memory."""

    @check
    def _shard_size_needs_hybrid(self) -> Iterator[str]:
        if self.shard_size is not None and self.strategy != "HYBRID_SHARD":
            yield "shard_size is for HYBRID_SHARD"

    @check
    def _tensor_groups_share_shard_size(self) -> Iterator[str]:
        if self.shard_size is not None and self.shard_size % self.tensor:
            yield f"shard_size {self.shard_size} is not a multiple of tensor {self.tensor}"

    def misfits(self, sizes: Mapping[str, int | None], *, tied: bool) -> list[str]:
        """What of a model (`sizes` by the names of Model's keys) cannot be split as asked for, a line each."""
        problems = []
        if tied and self.tensor > 1:
            problems.append(
                f"parallel.tensor {self.tensor}: model.tied_embeddings: embedding and output layer are split along "
                "different sides"
            )
        return problems + [line for key, size in sizes.items() for line in self._misfit(key, size)]

    def _misfit(self, key: str, size: int | None) -> Iterator[str]:
        names = ("tensor", "context") if key in ("heads", "kv_heads", "sequence") else ("tensor",)
        groups = {f"parallel.{name} {parts}": parts for name in names if (parts := getattr(self, name)) > 1}
        if size is not None and size % math.prod(groups.values()):
            yield f"{' x '.join(groups)}: does not divide model.{key} {size}"


TILE = 16
"""Of each side of a matrix in float8: tensor cores take only multiples of it."""


class Precision(Section):
    """Arithmetic of the passes; the parameters that the optimiser keeps are always float32."""

    compute: Literal["float32", "bfloat16"] = "bfloat16"
    reduce: Literal["float32", "bfloat16"] = "float32"
    """Arithmetic in which gradients of different processes are added."""
    float8: Literal["none", "tensorwise", "rowwise"] = "none"
    """Matrix products of the blocks in float8 (H100 and newer): `tensorwise` is the fastest, `rowwise` more exact."""

    @check
    def _float8_gives_bfloat16(self) -> Iterator[str]:
        if self.float8 != "none" and self.compute != "bfloat16":
            yield "float8 needs compute: bfloat16, which is what its products come out as"


class Recompute(Section):
    """Activation checkpointing: what the forward pass does not keep and the backward pass computes again."""

    mode: Literal["none", "full", "selective"] = "none"
    """`full` keeps only the input of a block; `selective` also the results of attention and every second matmul."""
    every: Positive = 1
    """Treat every Nth block, leave the others alone."""
