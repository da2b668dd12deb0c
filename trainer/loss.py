"""Cross entropy, summed: the caller divides by the number of targets of all processes together.

A mean of each process's mean weighs a target by how few neighbours it has; with uneven targets the gradient is wrong.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from trainer.data.batches import IGNORED

CHUNK = 4096
"""Rows whose logits are copied to float32 at a time. A 128k vocabulary would otherwise decide the memory of a step."""


def summed(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Sum of the negative log likelihoods, nats, float32.

    Logits are (batch, tokens, vocabulary), targets (batch, tokens).
    """
    rows, wanted = logits.flatten(0, 1), targets.flatten()
    total = torch.zeros((), dtype=torch.float32, device=logits.device)
    for part, aims in zip(torch.split(rows, CHUNK), torch.split(wanted, CHUNK), strict=True):
        total = total + functional.cross_entropy(part.float(), aims, ignore_index=IGNORED, reduction="sum")
    return total
