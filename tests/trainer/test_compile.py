"""torch.compile, block by block. A test of its own: compiling takes a minute or two on a CPU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import soak
from tests.trainer import spread
from tests.trainer.conftest import Group, Groups

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(
        not (shutil.which("g++") or shutil.which("c++")), reason="torch.compile needs a C++ compiler"
    ),
]

STEPS = 4
TENSOR: dict[str, Any] = {"parallel": {"tensor": 2}, "recompute": {"mode": "selective"}}
CASES: dict[str, dict[str, Any]] = {"plain": {}, "float8-tensor": TENSOR | spread.FLOAT8}
APART: dict[str, dict[str, Any]] = {"tensor": TENSOR, "float8": spread.FLOAT8}
"""For `make soak`: what the gate has together."""
ALIKE: dict[str, dict[str, Any]] = {"full": {"recompute": {"mode": "full"}}}
"""What changes nothing in the numbers, so that what was computed without is there already."""
HYBRID: dict[str, dict[str, Any]] = {
    "hybrid": {"parallel": {"strategy": "HYBRID_SHARD", "shard_size": 2}, "recompute": {"mode": "full"}},
}
"""On four processes: two copies of two shards."""
BOUNDS = dict.fromkeys(["float8", "float8-tensor"], (1e-3, 0.1))
"""Relative, of losses and of weights. Fused kernels round bfloat16 elsewhere, and AdamW's first updates have the size
of the rate whatever that of the gradient, so that weights with hardly any go either way."""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the compiler puts what it makes."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="module")
def outcomes(group: Group, kernels: Path) -> Groups:
    def changed(cases: dict[str, dict[str, Any]], how: str, **change: Any) -> dict[str, dict[str, Any]]:
        return {f"{name}-{how}": {"steps": STEPS, **case, **change} for name, case in cases.items()}

    def compiled(cases: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return changed(cases, "compiled", compile=True, limits={"start_seconds": 600})

    # Without the compiler's own processes, each of which would load torch once more.
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(kernels), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    two = changed(CASES, "eager") | compiled(CASES | ALIKE)
    four = compiled(HYBRID)
    apart = changed(APART, "eager") | compiled(APART)
    return Groups(
        (two, lambda: group(2, two, environment)),
        (four, lambda: group(4, four, environment)),  # finds what the two have compiled
        (apart, lambda: group(2, apart, environment)),
    )


@pytest.mark.parametrize("name", soak.cases([*CASES, *ALIKE, *HYBRID, *APART], APART))
def test_compiled_blocks_compute_the_same(name: str, outcomes: Groups) -> None:
    eager = outcomes[f"{name if name in CASES | APART else 'plain'}-eager"]
    compiled = outcomes[f"{name}-compiled"]
    assert eager.status == 0, eager.message
    assert compiled.status == 0, compiled.message
    of_losses, of_weights = BOUNDS.get(name, (1e-5, 1e-5))
    assert compiled.losses == pytest.approx(eager.losses, rel=of_losses)
    assert compiled.norms == pytest.approx(eager.norms, rel=10 * of_losses)
    weights = compiled.weights(STEPS)
    for key, value in eager.weights(STEPS).items():
        assert float((weights[key] - value).norm() / value.norm()) < of_weights, key


def test_kernels_were_made(outcomes: Groups, kernels: Path) -> None:
    assert outcomes["plain-compiled"].status == 0
    assert len(list(kernels.rglob("*.so"))) >= 2 * len(CASES), "a forward and a backward pass of each"


@pytest.mark.parametrize("name", soak.cases([*CASES, *ALIKE, *HYBRID, *APART], APART))
def test_blocks_were_compiled(name: str, outcomes: Groups) -> None:
    """Not run as they are, as the compiler leaves what it can't compile, or has compiled too often."""
    graphs = json.loads((outcomes[f"{name}-compiled"].output / "graphs.json").read_text())
    assert graphs["unique_graphs"] > 0
