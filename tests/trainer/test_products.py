"""Bfloat16 products in float32: they are what they replace, rounded once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trainer import jobs
from tests.trainer.derivatives import ULP, differentiated, drawn

pytestmark = pytest.mark.processes  # imports torch


@pytest.fixture(params=[False, True], ids=["narrow", "wide"])
def widened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """A machine without a bfloat16 matrix unit, and one with it."""
    from trainer import products

    monkeypatch.setattr(products, "widened", lambda: request.param)
    return bool(request.param)


@pytest.mark.parametrize("biased", [False, True])
def test_a_layer_is_as_exact_as_bfloat16_can_be(widened: bool, biased: bool) -> None:
    import torch
    from torch import nn
    from torch.nn import functional

    from trainer import products

    torch.manual_seed(1)
    model = nn.ModuleDict(
        {"layers": nn.ModuleList([nn.Linear(96, 40, bias=biased)]), "head": nn.Linear(4, 4)}
    )
    wrapper = nn.ModuleDict({"model": model}).to(torch.bfloat16)
    products.apply(wrapper, torch.device("cpu"))
    layer: Any = wrapper.get_submodule("model.layers.0")
    assert ("forward" in vars(layer)) == widened
    assert "forward" not in vars(wrapper.get_submodule("model.head")), "loss.py multiplies there"

    inputs, gradient = drawn(2, 50, 96), torch.randn(2, 50, 40).to(torch.bfloat16)
    found = differentiated(layer, [inputs], gradient) + [parameter.grad for parameter in layer.parameters()]
    exact = [leaf.detach().double().requires_grad_() for leaf in (inputs, *layer.parameters())]
    expected = differentiated(functional.linear, exact, gradient.double())
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype is torch.bfloat16
        # Half a unit of the last place, and what sums in float32 lose where they nearly cancel.
        torch.testing.assert_close(mine.double(), theirs, rtol=ULP / 2 * 1.01, atol=1e-4)


@pytest.mark.parametrize("rows", [64, 1 << 20], ids=["pieces", "whole"])
def test_loss_and_its_gradients(widened: bool, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch.nn import functional

    from trainer import loss

    torch.manual_seed(2)
    monkeypatch.setitem(loss.NUMBERS, "cpu", rows * 300)
    hidden, weight = drawn(4, 64, 32), drawn(300, 32)
    targets = torch.randint(0, 300, (4, 64))
    found = differentiated(
        lambda *leaves: loss.summed(*leaves, targets, 256), [hidden, weight], torch.ones(())
    )

    def plain(hidden: Any, weight: Any) -> Any:
        return functional.cross_entropy((hidden @ weight.T).flatten(0, 1), targets.flatten())

    exact = [leaf.detach().double().requires_grad_() for leaf in (hidden, weight)]
    expected = differentiated(plain, exact, torch.ones((), dtype=torch.float64))
    assert found[0].dtype is torch.float32
    assert [gradient.dtype for gradient in found[1:]] == [torch.bfloat16] * 2
    bound = ULP / 4 if widened else 2 * ULP  # bfloat16 logits, and sums that are rounded piece by piece
    for mine, theirs in zip(found, expected, strict=True):
        assert float((mine.double() - theirs).norm() / theirs.norm()) < bound


def test_attention(widened: bool) -> None:
    import torch
    from torch.nn import functional

    from trainer import attention

    torch.manual_seed(3)
    leaves = [drawn(2, heads, 24, 16) for heads in (4, 2, 2)]

    def plain(*leaves: Any) -> Any:
        return functional.scaled_dot_product_attention(*leaves, is_causal=True, enable_gqa=True).transpose(
            1, 2
        )

    gradient = torch.randn(2, 24, 4, 16).to(torch.bfloat16)
    found = differentiated(attention.causal, leaves, gradient)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected = differentiated(plain, exact, gradient.double())
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype is torch.bfloat16
        assert float((mine.double() - theirs).norm() / theirs.norm()) < (ULP / 4 if widened else ULP)


def test_what_it_gets_in_float32_it_leaves_alone(widened: bool, tmp_path: Path) -> None:
    import torch

    from trainer import model as models
    from trainer import products

    job = jobs.job(tmp_path)
    model: Any = models.build(models.shape(job.model))
    models.materialise(model, torch.device("cpu"))
    models.initialise(model, 0.02, 1)
    tokens = torch.arange(20)[None]
    before = model(tokens).logits
    products.apply(model, torch.device("cpu"))
    torch.testing.assert_close(model(tokens).logits, before, rtol=0, atol=0)
