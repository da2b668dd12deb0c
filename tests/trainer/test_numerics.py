"""Every strategy, precision, accumulation and number of processes against a plain one-process training."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import soak
from tests.trainer import jobs
from tests.trainer.conftest import Group, Groups, parted

pytestmark = pytest.mark.processes

FLOAT32_BOUND = 1e-5
"""Relative, for losses, norms and weights: what another order of summation does in twelve steps."""
BFLOAT16_LOSS_BOUND = 0.01
"""Nats, for each loss: bfloat16 carries three digits, the loss is around five."""

TWO: dict[str, dict[str, Any]] = {
    "full": {},
    "grad-op": {"parallel": {"strategy": "SHARD_GRAD_OP"}},
    "no-shard": {"parallel": {"strategy": "NO_SHARD"}},
    "whole": {"parallel": {"accumulate": "whole"}},
    "one-pass": {"batch": {"micro": 4}},
    "uneven": {"batch": {"micro": 3}},
    "recompute": {"recompute": {"mode": "full"}},
    "selective": {"recompute": {"mode": "selective", "every": 2}},
    "offload": {"parallel": {"cpu_offload": True}},
    "prefetch": {"parallel": {"prefetch": 2}},
    "tensor": {"parallel": {"tensor": 2}},
    "tied": {"model": {"tied_embeddings": True}},
    "bfloat16": {"precision": {"compute": "bfloat16"}},
    "bfloat16-all": {"precision": {"compute": "bfloat16", "reduce": "bfloat16"}},
}
HYBRID = {"strategy": "HYBRID_SHARD", "shard_size": 2}
BFLOAT16 = {"precision": {"compute": "bfloat16"}}
ACCUMULATED: dict[str, Any] = {"batch": {"micro": 1}, "faults": {"count": 2}}
FOUR: dict[str, dict[str, Any]] = {
    "hybrid": {"parallel": HYBRID},
    "hybrid-accumulated": {"parallel": HYBRID, **ACCUMULATED},
    "hybrid-whole": {"parallel": {**HYBRID, "accumulate": "whole"}, **ACCUMULATED},
    "full-4": ACCUMULATED,
    "full-whole-4": {"parallel": {"accumulate": "whole"}, **ACCUMULATED},
    "grad-op-4": {"parallel": {"strategy": "SHARD_GRAD_OP"}, **ACCUMULATED},
    "no-shard-4": {"parallel": {"strategy": "NO_SHARD"}, **ACCUMULATED},
    "more-places-than-sequences": {"batch": {"micro": 3}},
    "bfloat16-hybrid": {"parallel": HYBRID, **BFLOAT16},
    "bfloat16-full-4": BFLOAT16,
    "bfloat16-grad-op": {"parallel": {"strategy": "SHARD_GRAD_OP"}, **BFLOAT16},
    "bfloat16-no-shard": {"parallel": {"strategy": "NO_SHARD"}, **BFLOAT16},
}
ONE: dict[str, dict[str, Any]] = {"alone": {}}
CASES = [*TWO, *FOUR, *ONE]
NEAR = [name for name in CASES if name.startswith("bfloat16")]
EXACT = [name for name in CASES if name not in NEAR]
SOAK = {
    "grad-op", "no-shard", "one-pass", "tensor", "bfloat16",  # of two processes: in the gate with four
    "hybrid", "full-whole-4", "bfloat16-grad-op", "bfloat16-no-shard",  # in the gate with other companions
}  # fmt: skip

PASSES = 2
"""Of a step, where each process puts one of its two sequences through the model at a time."""
UNITS = 4
"""What is gathered and reduced together: the embedding, each of two blocks, the output layer with the last norm."""
COLLECTIVES = {
    # The first block is gathered again in the backward pass; the others are still there, or not needed.
    "full-4": (PASSES * (UNITS + 1), PASSES * UNITS, 0),
    "full-whole-4": (PASSES * (UNITS + 1), UNITS, 0),
    "grad-op-4": (PASSES * UNITS, PASSES * UNITS, 0),
    "hybrid-accumulated": (PASSES * (UNITS + 1), PASSES * UNITS, UNITS),
    "hybrid-whole": (PASSES * (UNITS + 1), UNITS, UNITS),
    "no-shard-4": (0, 0, UNITS),
}
"""All-gathers, reduce-scatters and all-reduces of one step's passes."""


@pytest.fixture(scope="module")
def outcomes(group: Group, questions: Path) -> Groups:
    answers = {"answers": {"data": {"source": str(questions)}, "batch": {"micro": 1}}}
    sizes = {1: ONE, 2: TWO | answers, 4: FOUR}
    parts = [(size, part) for size, cases in sizes.items() for part in parted(cases, SOAK)]
    return Groups(*((part, partial(group, size, part)) for size, part in parts))


@pytest.fixture(scope="module")
def references(outcomes: Groups) -> dict[str, Any]:
    """By the case that has one of its own; the others share that of "full"."""
    from tests.trainer import reference

    return {
        name: reference.train(
            jobs.job(outcomes[name].output, model={"tied_embeddings": name == "tied"}),
            outcomes[name].output / "data",
        )
        for name in ("full", "tied", "answers")
    }


@pytest.mark.parametrize("name", soak.cases([*EXACT, "answers"], SOAK))
def test_float32_equals_the_plain_training(name: str, outcomes: Groups, references: dict[str, Any]) -> None:
    outcome, plain = outcomes[name], references.get(name, references["full"])
    assert outcome.status == 0, outcome.message
    assert outcome.losses == pytest.approx(plain.losses, rel=FLOAT32_BOUND)
    assert outcome.norms == pytest.approx(plain.norms, rel=10 * FLOAT32_BOUND)
    weights = outcome.weights(12)
    assert set(weights) == set(plain.weights)
    for key, value in plain.weights.items():
        assert float((weights[key] - value).norm() / value.norm()) < FLOAT32_BOUND, key


@pytest.mark.parametrize("name", soak.cases(NEAR, SOAK))
def test_bfloat16_stays_near_float32(name: str, outcomes: Groups, references: dict[str, Any]) -> None:
    outcome, plain = outcomes[name], references["full"]
    assert outcome.status == 0
    assert outcome.losses == pytest.approx(plain.losses, abs=BFLOAT16_LOSS_BOUND)
    assert outcome.losses != pytest.approx(plain.losses, rel=FLOAT32_BOUND), "bfloat16 was not used at all"
    assert all(value.dtype == value.float().dtype for value in outcome.weights(12).values()), (
        "master weights are float32"
    )


@pytest.mark.parametrize("name", soak.cases(COLLECTIVES, SOAK))
def test_passes_ask_of_others_what_the_strategy_says(name: str, outcomes: Groups) -> None:
    steps = json.loads((outcomes[name].output / "collectives.json").read_text())
    assert len(steps) == 2
    gathers, scatters, reduces = COLLECTIVES[name]
    expected = {
        "c10d._allgather_base_": gathers,
        "c10d.alltoall_base_": scatters,  # gloo.py
        "c10d.allreduce_": reduces,
    }
    assert all(step == {key: count for key, count in expected.items() if count} for step in steps), steps[0]


def test_the_loss_falls(references: dict[str, Any]) -> None:
    """Equality of curves says nothing if nothing is learnt."""
    losses = references["full"].losses
    assert losses[-1] < losses[0] - 1.0
