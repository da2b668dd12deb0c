"""torch.compile, block by block. A test of its own: compiling takes a minute or two on a CPU."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import spread
from tests.trainer.conftest import Group, Outcome
from tests.trainer.jobs import merged

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        not (shutil.which("g++") or shutil.which("c++")), reason="torch.compile needs a C++ compiler"
    ),
]

STEPS = 4
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "tensor": {"parallel": {"tensor": 2}},
    "float8": spread.FLOAT8,
}
BOUNDS = {"plain": (1e-5, 1e-5), "tensor": (1e-5, 1e-5), "float8": (1e-3, 0.1)}
"""Relative, of losses and of weights. Fused kernels round bfloat16 elsewhere, and AdamW's first updates have the size
of the rate whatever that of the gradient, so that weights with hardly any go either way."""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the compiler puts what it makes."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="module")
def outcomes(group: Group, kernels: Path) -> dict[str, Outcome]:
    compiled = {"compile": True, "limits": {"start_seconds": 600}}
    return group(
        2,
        {
            f"{name}-{how}": merged(merged({"steps": STEPS}, case), change)
            for name, case in CASES.items()
            for how, change in (("eager", {}), ("compiled", compiled))
        },
        {"TORCHINDUCTOR_CACHE_DIR": str(kernels)},
    )


@pytest.mark.parametrize("name", CASES)
def test_compiled_blocks_compute_the_same(name: str, outcomes: dict[str, Outcome]) -> None:
    eager, compiled = outcomes[f"{name}-eager"], outcomes[f"{name}-compiled"]
    assert eager.status == 0, eager.message
    assert compiled.status == 0, compiled.message
    of_losses, of_weights = BOUNDS[name]
    assert compiled.losses == pytest.approx(eager.losses, rel=of_losses)
    assert compiled.norms == pytest.approx(eager.norms, rel=10 * of_losses)
    weights = compiled.weights(STEPS)
    for key, value in eager.weights(STEPS).items():
        assert float((weights[key] - value).norm() / value.norm()) < of_weights, key


def test_kernels_were_made(outcomes: dict[str, Outcome], kernels: Path) -> None:
    assert len(list(kernels.rglob("*.so"))) >= 2 * len(CASES), "a forward and a backward pass of each"
