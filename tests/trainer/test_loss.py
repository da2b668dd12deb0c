"""The summed cross entropy, whole and in chunks."""

from __future__ import annotations

from typing import Any

import pytest

ROWS, VOCABULARY = 60, 50


def of(chunk: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any, int]:
    """Loss, gradient, and the float32 numbers kept for the backward pass."""
    import torch

    from trainer import loss

    monkeypatch.setattr(loss, "CHUNK", chunk)
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(3, 20, VOCABULARY, generator=generator).bfloat16().requires_grad_()
    targets = torch.randint(0, VOCABULARY, (3, 20), generator=generator)
    targets[1, :15] = -100
    kept = 0

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += tensor.numel() if tensor.dtype is torch.float32 else 0
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        total = loss.summed(logits, targets)
    total.backward()
    plain = torch.log_softmax(logits.detach().float(), -1)
    expected = -sum(plain[b, t, targets[b, t]] for b in range(3) for t in range(20) if targets[b, t] >= 0)
    assert total.detach() == pytest.approx(float(expected), rel=1e-5)
    return total.detach(), logits.grad, kept


def test_chunks_change_neither_loss_nor_gradient_but_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, gradient, kept = of(ROWS, monkeypatch)
    parts, gradient_of_parts, kept_by_parts = of(7, monkeypatch)
    assert float(parts) == pytest.approx(float(whole), rel=1e-6)
    assert float((gradient.float() - gradient_of_parts.float()).abs().max()) < 1e-6
    assert kept >= ROWS * VOCABULARY
    assert kept_by_parts < ROWS, "float32 copies of the logits are kept"
