"""Float8 products, emulated: near the exact training, composed with everything else, and only where they fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import soak
from tests.trainer import jobs, spread
from tests.trainer.conftest import Groups
from trainer import config, exits

LOSS_BOUND = 0.02
"""Nats, for each loss of about five: float8 carries one digit, but its errors average out (0.004 was seen)."""
CASES = (
    "float8-rowwise",
    "float8-tensorwise",
    "float8-selective",
    "float8-tensor",
    "float8-tensor-tensorwise",
)


@pytest.mark.processes
@pytest.mark.parametrize("name", soak.cases(CASES, spread.SOAK))
def test_losses_stay_near_the_exact_ones(name: str, spread_outcomes: Groups) -> None:
    from tests.trainer import reference

    outcome = spread_outcomes[name]
    assert outcome.status == 0, outcome.message
    steps = len(outcome.losses)
    plain = reference.train(jobs.job(outcome.output, steps=steps), outcome.output / "data").losses
    assert outcome.losses == pytest.approx(plain, abs=LOSS_BOUND)


@pytest.mark.processes
def test_what_float8_changes_is_float8(spread_outcomes: Groups) -> None:
    rowwise, tensorwise = spread_outcomes["float8-rowwise"], spread_outcomes["float8-tensorwise"]
    assert rowwise.losses[:2] != tensorwise.losses[:2]
    assert rowwise.losses[:3] == pytest.approx(spread_outcomes["float8-selective"].losses[:3], abs=1e-3)
    assert rowwise.history.starts[0]["float8"] == "rowwise"
    dtypes = {str(value.dtype) for value in rowwise.weights(12).values()}
    assert dtypes == {"torch.float32"}, "master weights are float32"


@pytest.mark.parametrize(("tensor", "expected"), [(1, {"down_proj"}), (2, {"down_proj", "k_proj", "v_proj"})])
def test_layers_that_do_not_fit_are_left_out_and_named(
    tmp_path: Path, tensor: int, expected: set[str]
) -> None:
    import torch

    from trainer import float8
    from trainer import model as models

    job = jobs.job(
        tmp_path, model={"feed_forward": 64}, precision={"compute": "bfloat16", "float8": "rowwise"}
    )
    model = models.build(models.shape(job.model))
    model.model.layers[0].mlp.down_proj = torch.nn.Linear(63, 32, device="meta")
    float8.apply(model, job.precision, torch.device("cpu"), tensor)
    assert {name.rsplit(".")[-1] for name in float8.left_out(model)} == expected
    assert type(model.lm_head) is torch.nn.Linear
    assert type(model.model.layers[1].mlp.down_proj).__name__ == "Float8Linear"


@pytest.mark.parametrize(
    ("micro", "sequence", "context", "fits"),
    [(2, 24, 1, True), (1, 24, 1, False), (2, 24, 2, False), (4, 24, 2, True), (1, 64, 4, True)],
)
def test_passes_whose_tokens_tensor_cores_do_not_take_are_refused(
    tmp_path: Path, micro: int, sequence: int, context: int, fits: bool
) -> None:
    changes = {
        "model": {"sequence": sequence, "kv_heads": 4},
        "batch": {"micro": micro},
        "parallel": {"context": context},
        "precision": {"compute": "bfloat16", "float8": "rowwise"},
    }
    path = jobs.write(tmp_path / "job.yaml", tmp_path, **changes)
    if fits:
        assert config.load(path).batch.micro == micro
        return
    expected = (
        f"precision.float8 rowwise: batch.micro {micro} x model.sequence {sequence} / parallel.context {context} "
        "is not a multiple of 16 tokens"
    )
    with pytest.raises(exits.Failure, match=expected):
        config.load(path)


def test_float8_of_float32_is_refused(tmp_path: Path) -> None:
    path = jobs.write(tmp_path / "job.yaml", tmp_path, precision={"float8": "rowwise"})
    with pytest.raises(exits.Failure, match="float8 needs compute: bfloat16"):
        config.load(path)
