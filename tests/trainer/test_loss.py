"""The loss straight from hidden states: equal to plain cross entropy, in a fraction of its memory."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from trainer import loss
from trainer.data.batches import IGNORED

BATCH, TOKENS, HIDDEN, VOCABULARY = 3, 20, 16, 50
ROWS = 7
"""In a chunk: a number that does not divide the 60 rows."""


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "NUMBERS", {"cpu": ROWS * VOCABULARY})


def inputs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(BATCH, TOKENS, HIDDEN, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(VOCABULARY, HIDDEN, generator=generator).to(dtype).requires_grad_()
    targets = torch.randint(0, VOCABULARY, (BATCH, TOKENS), generator=generator)
    targets[1, :15] = IGNORED
    return hidden, weight, targets


def plain(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, over: int) -> torch.Tensor:
    rows = (hidden @ weight.T).float().flatten(0, 1)
    return functional.cross_entropy(rows, targets.flatten(), ignore_index=IGNORED, reduction="sum") / over


def gradients(function: Any, *arguments: Any) -> tuple[float, torch.Tensor, torch.Tensor]:
    hidden, weight, *rest = arguments
    hidden, weight = hidden.detach().requires_grad_(), weight.detach().requires_grad_()
    total = function(hidden, weight, *rest)
    total.backward()
    return float(total.detach()), hidden.grad, weight.grad


@pytest.mark.parametrize("over", [1, 45])
def test_float32_equals_plain_cross_entropy(chunks: None, over: int) -> None:
    ours, theirs = gradients(loss.summed, *inputs(), over), gradients(plain, *inputs(), over)
    assert ours[0] == pytest.approx(theirs[0], rel=1e-6)
    for mine, expected in zip(ours[1:], theirs[1:], strict=True):
        assert float((mine - expected).abs().max()) < 1e-6 * float(expected.abs().max())
    assert not ours[1][1, :15].any(), "an ignored target moves something"


def test_bfloat16_is_as_near_to_the_truth_as_plain_cross_entropy(chunks: None) -> None:
    exact = gradients(
        plain, *(t.double() if t.is_floating_point() else t for t in inputs(torch.bfloat16)), 45
    )
    ours = gradients(loss.summed, *inputs(torch.bfloat16), 45)
    theirs = gradients(plain, *inputs(torch.bfloat16), 45)
    for mine, expected, truth in zip(ours[1:], theirs[1:], exact[1:], strict=True):
        assert mine.dtype is torch.bfloat16
        errors = [float((value.double() - truth).norm() / truth.norm()) for value in (mine, expected)]
        assert errors[0] < 1.5 * errors[1], errors


def test_evaluation_and_gradient_see_the_same_loss(chunks: None) -> None:
    hidden, weight, targets = inputs()
    with torch.no_grad():
        still = loss.summed(hidden, weight, targets)
    assert not still.requires_grad
    assert float(still) == float(loss.summed(hidden, weight, targets).detach())


def test_an_infinite_factor_reaches_the_gradient(chunks: None) -> None:
    hidden, weight, targets = inputs()
    (loss.summed(hidden, weight, targets) * float("inf")).backward()
    assert not torch.isfinite(weight.grad).any()


class Peak(TorchDispatchMode):
    """The most bytes alive at a time in tensors made by the operations inside."""

    def __init__(self) -> None:
        super().__init__()
        self.alive = self.most = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self._count(tensor.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        place, size = storage.data_ptr(), storage.nbytes()
        if place in self._seen or not size:
            return
        self._seen.add(place)
        self.alive += size
        self.most = max(self.most, self.alive)
        weakref.finalize(storage, self._forget, place, size)

    def _forget(self, place: int, size: int) -> None:
        self._seen.discard(place)
        self.alive -= size


def test_memory_is_that_of_a_chunk_and_of_the_gradients() -> None:
    """4k tokens, a vocabulary of 128k: whole float32 logits are 2.1 GB, and plain cross entropy takes them twice."""
    tokens, vocabulary, hidden = 4096, 128 * 1024, 4
    states = torch.zeros(1, tokens, hidden, requires_grad=True)
    weight = torch.zeros(vocabulary, hidden, requires_grad=True)
    with Peak() as peak:
        loss.summed(states, weight, torch.zeros(1, tokens, dtype=torch.int64)).backward()
    gradients = 4 * hidden * (tokens + vocabulary)
    chunk = 4 * loss.NUMBERS["cpu"]
    assert chunk <= peak.most < 1.1 * chunk + 2 * gradients, peak.most


def test_plain_cross_entropy_takes_what_the_measure_says() -> None:
    """The measure itself: whole logits, their logarithms and their gradient are alive at a time."""
    states = torch.zeros(1, 256, 4, requires_grad=True)
    weight = torch.zeros(4096, 4, requires_grad=True)
    with Peak() as peak:
        plain(states, weight, torch.zeros(1, 256, dtype=torch.int64), 1).backward()
    assert peak.most >= 2 * 4 * 256 * 4096
