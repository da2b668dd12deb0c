"""Context parallel: sequences spread over processes, against a plain one-process training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import soak
from tests.trainer import jobs, spread
from tests.trainer.conftest import Groups
from trainer import config, exits


@pytest.mark.processes
@pytest.mark.parametrize("name", soak.cases(["context", "context-tensor", "context-answers"], spread.SOAK))
def test_shared_sequences_train_as_whole_ones(
    name: str, spread_outcomes: Groups, spread_references: dict[str, Any]
) -> None:
    spread.check_equal(spread_outcomes[name], spread_references[spread.reference_of(name)])


@pytest.mark.processes
def test_bfloat16_stays_near_float32(spread_outcomes: Groups, spread_references: dict[str, Any]) -> None:
    outcome, plain = spread_outcomes["context-bfloat16"], spread_references["tensor"]
    assert outcome.status == 0, outcome.message
    assert outcome.losses[:3] == pytest.approx(plain.losses[:3], abs=0.01)
    assert outcome.losses[:3] != pytest.approx(plain.losses[:3], rel=spread.BOUND), (
        "bfloat16 was not used at all"
    )


def test_what_cannot_be_shared_is_refused_at_once(tmp_path: Path) -> None:
    path = jobs.write(
        tmp_path / "job.yaml",
        tmp_path,
        model={"sequence": 66, "tied_embeddings": True, "feed_forward": 65},
        parallel={"context": 4},
        compile=True,
    )
    with pytest.raises(exits.Failure) as caught:
        config.load(path)
    text = str(caught.value)
    for expected in (
        "parallel.context 4: does not divide model.kv_heads 2",
        "parallel.context 4: does not divide model.sequence 66",
        "compile: what parallel.context exchanges around attention is not compiled",
    ):
        assert expected in text
    assert "feed_forward" not in text
    assert "tied" not in text
