"""torch.compile, block by block. A test of its own: compiling takes a minute or two on a CPU."""

from __future__ import annotations

import shutil

import pytest

from tests.trainer.conftest import Group

pytestmark = pytest.mark.processes


@pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("c++")), reason="torch.compile needs a C++ compiler"
)
def test_compiled_blocks_compute_the_same(group: Group) -> None:
    limits = {"limits": {"start_seconds": 600}}
    outcomes = group(2, {"eager": {"steps": 4}, "compiled": {"steps": 4, "compile": True, **limits}})
    eager, compiled = outcomes["eager"], outcomes["compiled"]
    assert compiled.status == 0, compiled.message
    assert compiled.losses == pytest.approx(eager.losses, rel=1e-5)
    assert compiled.norms == pytest.approx(eager.norms, rel=1e-4)
    first = [outcome.history.steps[1]["seconds"]["step"] for outcome in (eager, compiled)]
    assert first[1] > 3 * first[0], "nothing was compiled"
    weights = compiled.weights(4)
    for name, value in eager.weights(4).items():
        assert float((weights[name] - value).norm() / value.norm()) < 1e-5, name
