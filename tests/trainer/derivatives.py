"""What the tests of functions with a backward pass of their own share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ULP = 2.0**-7
"""Relative: the distance of neighbours in bfloat16, at most."""
ERRORS = {"float32": 1e-6, "bfloat16": ULP}
"""Relative to the norm of a whole tensor: what rounding may do."""


def drawn(*shape: int, dtype: str = "bfloat16") -> Any:
    import torch

    return torch.randn(*shape).to(getattr(torch, dtype)).requires_grad_()


def differentiated(function: Callable[..., Any], leaves: list[Any], gradient: Any) -> list[Any]:
    """The result and the gradients of all leaves."""
    result = function(*leaves)
    result.backward(gradient)
    return [result.detach(), *(leaf.grad for leaf in leaves)]


def assert_exact(
    function: Callable[..., Any], plain: Callable[..., Any], leaves: list[Any], gradient: Any
) -> None:
    """That result and gradients are those of a plain function in float64, up to rounding."""
    found = differentiated(function, leaves, gradient)
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    expected = differentiated(plain, exact, gradient.double())
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype is gradient.dtype
        error = float((mine.double() - theirs).norm() / theirs.norm())
        assert error < ERRORS[str(mine.dtype).removeprefix("torch.")]


def kept(function: Callable[..., Any], leaves: list[Any]) -> int:
    """Bytes that autograd keeps for the backward pass: of different storages, the leaves' not counted."""
    import torch

    sizes: dict[int, int] = {}

    def note(tensor: Any) -> Any:
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = function(*leaves)
    assert result.requires_grad
    for leaf in leaves:
        sizes.pop(leaf.untyped_storage().data_ptr(), None)
    return sum(sizes.values())
