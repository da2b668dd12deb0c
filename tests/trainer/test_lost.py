"""One process fails, dies or hangs, anywhere: the others end soon, and all say who it was and where."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests import soak
from tests.trainer.campaign import Campaign, Forge
from trainer import exits

pytestmark = pytest.mark.processes

LIMIT = 8
"""Seconds: of a collective, and for signs of life."""
JOB: dict[str, Any] = {
    "steps": 3,
    "schedule": {"warmup": 0},
    "limits": {"start_seconds": 120, "collective_seconds": LIMIT, "save_seconds": 120},
}
NAMES = {
    "data": "preparing data",
    "build": "building the model",
    "load": "loading the newest checkpoint",
    "forward": "step 2, passes",
    "evaluate": "step 3, evaluate",
    "save": "saving step 3",
    "commit": "saving step 3",
}


@pytest.fixture(scope="module")
def good(forge: Forge) -> Campaign:
    """Without a fault; its data serve the others."""
    campaign = Campaign(forge, forge.folder / "good", JOB)
    assert campaign.start(2)["statuses"] == [exits.FINISHED] * 2, campaign.log()
    return campaign


def struck(good: Campaign, where: str, what: str, rank: int) -> tuple[dict[str, Any], str]:
    """What became of a start in which `what` happened to `rank` at `where`, and what it printed."""
    campaign = Campaign(good.forge, good.forge.folder / f"{what}-{where}-{rank}", JOB, good.output / "data")
    answer = campaign.start(2, grace=6 * LIMIT, where=where, what=what, rank=rank)
    return answer, campaign.log()


@pytest.mark.parametrize(
    "where", soak.cases(["data", "build", "load", "forward", "evaluate", "save"], soak=("build", "evaluate"))
)
def test_an_error_is_everybodys(where: str, good: Campaign) -> None:
    rank = 0 if where == "data" else 1
    answer, log = struck(good, where, "raise", rank)
    assert answer["statuses"] == [exits.RETRY] * 2
    assert not answer["stuck"]
    sentence = f"{NAMES[where]} failed on rank {rank} on host "
    assert log.count(sentence) >= 2, log
    assert log.count(": ArithmeticError: a cosmic ray") >= 2, log
    assert "no answer" not in log


@pytest.mark.parametrize(
    ("where", "rank"),
    [pytest.param("build", 1, marks=pytest.mark.soak), ("load", 0), ("forward", 1), ("commit", 1)],
)
def test_a_killed_process_is_named(where: str, rank: int, good: Campaign) -> None:
    answer, log = struck(good, where, "kill", rank)
    assert not answer["stuck"], log
    assert sorted(answer["statuses"]) == [-9, exits.RETRY]
    assert f"{NAMES[where]}" in log
    assert (
        f"no answer from rank {rank} on host " in log or f"no sign of life from rank {rank} on host " in log
    ), log


@pytest.mark.parametrize(
    ("where", "rank"), [pytest.param("build", 1, marks=pytest.mark.soak), ("forward", 0), ("save", 1)]
)
def test_a_process_that_hangs_is_named(where: str, rank: int, good: Campaign) -> None:
    answer, log = struck(good, where, "stop", rank)
    assert not answer["stuck"], log
    assert answer["statuses"][1 - rank] == exits.RETRY
    assert f"{NAMES[where]} for " in log
    assert f"; rank {rank} on host {os.uname().nodename} gives no sign of life" in log, (
        "said before the time limit"
    )
    assert (
        f"no answer from rank {rank} on host " in log or f"no sign of life from rank {rank} on host " in log
    ), log


@pytest.mark.parametrize(
    "parallel", [{"strategy": "HYBRID_SHARD", "shard_size": 2}, {"tensor": 2}], ids=["hybrid", "tensor"]
)
def test_groups_of_some_processes_have_the_same_time_limit(parallel: dict[str, Any], good: Campaign) -> None:
    """PyTorch gives each half an hour of its own."""
    campaign = Campaign(
        good.forge,
        good.forge.folder / f"stop-{len(parallel)}",
        JOB | {"parallel": parallel},
        good.output / "data",
    )
    answer = campaign.start(4, grace=6 * LIMIT, where="forward", what="stop", rank=3)
    assert not answer["stuck"], campaign.log()
    assert answer["statuses"][:3] == [exits.RETRY] * 3
    assert "rank 3 on host " in campaign.log()
    assert f"{NAMES['forward']} for " in campaign.log()
    assert " s, waiting in gloo:" in campaign.log()


def test_the_flight_recorder_knows_the_last_collective(good: Campaign) -> None:
    """Written by PyTorch, read with its own format: a pickle with an entry for each operation."""
    answer, log = struck(good, "evaluate", "kill", 1)
    record = pickle.loads((Path(answer["folder"]) / "flight" / "gloo-rank-0").read_bytes())
    names = {entry["profiling_name"] for entry in record["entries"]}
    assert {"gloo:all_reduce", "gloo:all_gather"} <= names
    assert "step 3, evaluate: gloo:all_gather: " in log, "the weights of the next block"
