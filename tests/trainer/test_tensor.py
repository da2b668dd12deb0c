"""Tensor and sequence parallel under every strategy, against a plain one-process training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import soak
from tests.trainer import jobs, spread
from tests.trainer.conftest import Groups
from tests.trainer.test_weights import exported
from trainer import config, exits

BFLOAT16_LOSS_BOUND = 0.01
EXACT = [
    name
    for name in spread.CASES
    if name.startswith(("tensor", "then")) and not name.endswith(("bfloat16", "loaded", "first"))
]


@pytest.mark.processes
@pytest.mark.parametrize("name", soak.cases(EXACT, spread.SOAK))
def test_split_training_equals_the_plain_one(
    name: str, spread_outcomes: Groups, spread_references: dict[str, Any]
) -> None:
    spread.check_equal(spread_outcomes[name], spread_references[spread.reference_of(name)])


@pytest.mark.processes
@pytest.mark.parametrize("name", soak.cases(["context", "tensor-copies"], spread.SOAK))
def test_evaluation_counts_a_group_once(name: str, spread_outcomes: Groups) -> None:
    tensor, other = (spread_outcomes[one].history.held_out[12] for one in ("tensor", name))
    assert other == pytest.approx(tensor, rel=spread.BOUND)


@pytest.mark.processes
def test_tokens_count_once_in_a_tensor_group(spread_outcomes: Groups) -> None:
    whole = spread_outcomes["tensor"].history.steps[12]
    assert whole["tokens_per_second"] == pytest.approx(4 * whole["tokens_per_second_per_process"], rel=1e-3)
    assert whole["tokens"] == 12 * 8 * 64


@pytest.mark.processes
def test_speed_counts_all_tokens_that_are_computed(spread_outcomes: Groups) -> None:
    """Most tokens of questions with answers are no targets, and cost as much as those that are."""
    facts = spread_outcomes["tensor-answers"].history.steps[12]
    assert facts["tokens_per_second"] * facts["seconds"]["step"] == pytest.approx(8 * 64, rel=1e-3)


@pytest.mark.processes
def test_bfloat16_stays_near_float32(spread_outcomes: Groups, spread_references: dict[str, Any]) -> None:
    outcome, plain = spread_outcomes["tensor-bfloat16"], spread_references["tensor"]
    assert outcome.status == 0, outcome.message
    assert outcome.losses == pytest.approx(plain.losses, abs=BFLOAT16_LOSS_BOUND)
    assert outcome.losses != pytest.approx(plain.losses, rel=spread.BOUND), "bfloat16 was not used at all"


@pytest.mark.processes
def test_published_weights_go_straight_into_their_parts(spread_outcomes: Groups, published: Path) -> None:
    from safetensors.torch import load_file

    outcome = spread_outcomes["tensor-loaded"]
    assert outcome.status == 0, outcome.message
    theirs = {
        key: value for file in published.glob("*.safetensors") for key, value in load_file(file).items()
    }
    ours = outcome.weights(3)
    assert set(ours) == set(theirs)
    for key, value in theirs.items():
        assert float((ours[key] - value.float()).abs().max()) < 1e-20, key


@pytest.mark.processes
def test_what_was_split_is_exported_whole(spread_outcomes: Groups, tmp_path: Path) -> None:
    """`transformers`, which reads the export, against PyTorch's converter, which reads the checkpoint."""
    outcome = spread_outcomes["tensor-qwen2"]
    theirs = exported(outcome, spread.QWEN2, tmp_path, "float32").state_dict()
    ours = outcome.weights(12)
    assert set(ours) == set(theirs)
    assert any(name.endswith("q_proj.bias") and bool(value.any()) for name, value in ours.items())
    assert all(bool((theirs[name] == value).all()) for name, value in ours.items())


def test_what_cannot_be_split_is_refused_at_once(tmp_path: Path) -> None:
    path = jobs.write(
        tmp_path / "job.yaml",
        tmp_path,
        model={"tied_embeddings": True, "feed_forward": 66},
        parallel={"tensor": 4},
    )
    with pytest.raises(exits.Failure) as caught:
        config.load(path)
    for expected in (
        "parallel.tensor 4: does not divide model.kv_heads 2",
        "parallel.tensor 4: does not divide model.feed_forward 66",
        "parallel.tensor 4: model.tied_embeddings: embedding and output layer are split along different sides",
    ):
        assert expected in str(caught.value)
    assert "model.heads" not in str(caught.value)
