"""Cross entropy, summed: the caller divides by the number of targets of all processes together.

A mean of each process's mean weighs a target by how few neighbours it has; with uneven targets the gradient is wrong.
"""

from __future__ import annotations

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from trainer.data.batches import IGNORED

CHUNK = 4096
"""Rows in float32 at a time. Whole logits in float32, kept for the backward pass, would decide the memory of a step
with a vocabulary of 128k."""


def summed(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Sum of the negative log likelihoods, nats, float32.

    Logits are (batch, tokens, vocabulary), targets (batch, tokens). A chunk's float32 copy is dropped after use and
    computed again in the backward pass; what stays are the logits themselves, in the arithmetic of the model.
    """
    rows, wanted = logits.flatten(0, 1), targets.flatten()
    if len(rows) <= CHUNK:
        return _sum(rows, wanted)
    total = torch.zeros((), dtype=torch.float32, device=logits.device)
    for part, aims in zip(torch.split(rows, CHUNK), torch.split(wanted, CHUNK), strict=True):
        total = total + checkpoint(_sum, part, aims, use_reentrant=False, preserve_rng_state=False)
    return total


def _sum(rows: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(rows.float(), wanted, ignore_index=IGNORED, reduction="sum")
