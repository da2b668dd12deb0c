"""Bad days inside a group that lives on: full disks, infinite losses, one process that fails; and background saves."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.trainer.conftest import Group, Outcome
from trainer import exits
from trainer.checkpoint.store import Store

pytestmark = pytest.mark.processes

SAVING = {"checkpoint": {"every": 4, "keep": 9}}
BACKGROUND = {"checkpoint": {"every": 4, "keep": 9, "asynchronous": True}}
BY_CLOCK = {"checkpoint": {"minutes": 60, "keep": 9}}
CASES: dict[str, dict[str, Any]] = {
    "plain": SAVING,
    "background": BACKGROUND,
    "background-slow-copy": {**BACKGROUND, "faults": {"copy_seconds": 0.3}},
    "background-no-copy": {**BACKGROUND, "faults": {"copy_fails": True}},
    "clock": {"steps": 8, **BY_CLOCK, "faults": {"late": [2, 5]}},
    "clock-again": {"output": "clock", **BY_CLOCK, "faults": {"late": [9]}},
    "clock-in-background": {
        "checkpoint": {"minutes": 60, "keep": 9, "asynchronous": True},
        "faults": {"late": [2, 5]},
    },
    "clock-always": {"steps": 3, "checkpoint": {"minutes": 1e-9, "keep": 9}},
    "full-disk": {**SAVING, "faults": {"file_bytes": 100_000}},
    "disk-free-again": {**SAVING, "output": "full-disk"},
    "full-disk-in-background": {**BACKGROUND, "faults": {"file_bytes": 100_000}},
    "stop": {**SAVING, "faults": {"poison": 7}},
    "skip": {**SAVING, "watch": {"non_finite": "skip"}, "faults": {"poison": 7}},
    "skip-again": {
        **SAVING,
        "output": "skip",
        "watch": {"non_finite": "skip"},
        "faults": {"forget": 4},
    },
    "roll-back": {**SAVING, "watch": {"non_finite": "roll_back"}, "faults": {"poison": 7}},
    "too-many": {"watch": {"non_finite": "skip", "non_finite_limit": 1}, "faults": {"poison": 2}},
    "broken-data": {"faults": {"broken_data": True}},
}


SMALL_DISK_MB = 1.5
"""One checkpoint of the tiny job fits, and not a second one."""


@pytest.fixture(scope="module")
def small_disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """Jobs whose checkpoints go to a file system of their own that is really too small; none without root."""
    jobs, mounted = {}, []
    for name, settings in {"small-disk": SAVING, "small-disk-in-background": BACKGROUND}.items():
        output = tmp_path_factory.mktemp(name)
        folder = output / "checkpoints"
        folder.mkdir()
        size = f"size={int(SMALL_DISK_MB * 1e6)}"
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], capture_output=True)
        if done.returncode == 0:
            mounted.append(folder)
            jobs[name] = {**settings, "output": str(output)}
    yield jobs
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="module")
def outcomes(group: Group, small_disks: dict[str, dict[str, Any]]) -> dict[str, Outcome]:
    return group(2, {**CASES, **small_disks})


@pytest.mark.parametrize("name", ["background", "background-slow-copy"])
def test_background_saves_change_nothing_of_the_result(name: str, outcomes: dict[str, Outcome]) -> None:
    plain, background = outcomes["plain"], outcomes[name]
    assert background.status == exits.FINISHED
    assert background.losses == plain.losses
    assert Store(background.output / "checkpoints").steps() == [12, 8, 4]
    for step in (4, 12):
        ours, theirs = background.weights(step), plain.weights(step)
        assert all(bool((ours[name] == value).all()) for name, value in theirs.items()), (
            "the copy was taken too late"
        )


@pytest.mark.parametrize(
    ("name", "saved"),
    [
        ("clock", [3, 6, 8, 10, 12]),  # "clock-again" goes on after step 8
        ("clock-in-background", [3, 6, 12]),
        ("clock-always", [1, 2, 3]),
    ],
)
def test_one_clock_makes_all_save_and_starts_again(
    name: str, saved: list[int], outcomes: dict[str, Outcome]
) -> None:
    """A clock that leaps in a step is asked when the next one begins, and all save after that."""
    outcome = outcomes[name]
    assert outcome.status == exits.FINISHED, outcome.message
    assert list(outcome.history.checkpoints) == saved
    store = Store(outcome.output / "checkpoints")
    assert store.steps() == saved[::-1]
    for checkpoint in store.saved():
        store.verify(checkpoint, store.read_commit(checkpoint))


def test_a_start_does_not_count_the_time_before_it(outcomes: dict[str, Outcome]) -> None:
    again = outcomes["clock-again"]
    assert again.status == exits.FINISHED, again.message
    assert [start["step"] for start in again.history.starts] == [0, 8]


@pytest.mark.parametrize("name", ["full-disk", "full-disk-in-background"])
def test_a_full_disk_is_reported_and_training_goes_on(name: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[name]
    assert outcome.status == exits.RETRY, "without its last checkpoint a job is not finished"
    assert "step 12 cannot be saved: rank 0: " in outcome.message
    assert "File too large" in outcome.message
    steps = list(outcome.history.steps)
    assert steps == list(range(1, 13)), "training stopped at a save that failed"
    lines = map(json.loads, (outcome.output / "metrics.jsonl").read_text().splitlines())
    tries = [line["step"] for line in lines if line["event"] == "checkpoint_failed"]
    assert len(tries) >= 2, "a failed save is tried again"
    if name == "full-disk":  # at its turn, and 1, 2, 4, … steps after a failure
        assert tries == [4, 5, 7, 8, 12]


def test_a_copy_that_fails_on_one_process_costs_a_save_and_no_time(outcomes: dict[str, Outcome]) -> None:
    """The others know before they begin to write. The last save of a job, and what follows it, copies nothing."""
    outcome = outcomes["background-no-copy"]
    assert outcome.status == exits.FINISHED, outcome.message
    assert outcome.losses == outcomes["plain"].losses
    text = (outcome.output / "metrics.jsonl").read_text()
    assert "cannot be copied: rank 1: MemoryError: no pinned memory left" in text
    assert Store(outcome.output / "checkpoints").steps() == [12]


@pytest.mark.parametrize("name", ["small-disk", "small-disk-in-background"])
def test_a_disk_that_is_really_full_costs_the_new_checkpoint_and_no_old_one(
    name: str, outcomes: dict[str, Outcome]
) -> None:
    if name not in outcomes:
        pytest.skip("mounting a small file system needs root")
    outcome = outcomes[name]
    assert outcome.status == exits.RETRY
    assert "step 12 cannot be saved: rank " in outcome.message
    assert "0.00 GB free in " in outcome.message
    assert outcome.losses == outcomes["plain"].losses
    store = Store(outcome.output / "checkpoints")
    assert store.steps() == [4]
    assert [path.name for path in store.folder.iterdir()] == ["step-00000004"]
    for saved in store.saved():
        store.verify(saved, store.read_commit(saved))


def test_a_failed_save_leaves_nothing(outcomes: dict[str, Outcome]) -> None:
    assert not list((outcomes["full-disk-in-background"].output / "checkpoints").iterdir())


def test_it_recovers_when_the_disk_does(outcomes: dict[str, Outcome]) -> None:
    again = outcomes["disk-free-again"]
    assert again.status == exits.FINISHED
    assert again.losses == outcomes["plain"].losses


def test_an_infinite_loss_stops_for_good(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["stop"]
    assert outcome.status == exits.DIVERGED
    assert "step 7: the gradient is not finite" in outcome.message
    assert Store(outcome.output / "checkpoints").steps() == [4]


def test_or_its_batch_is_left_out(outcomes: dict[str, Outcome]) -> None:
    outcome, plain = outcomes["skip"], outcomes["plain"]
    assert outcome.status == exits.FINISHED
    reports = outcome.history.steps
    assert reports[7]["loss"] is None
    assert [reports[step]["loss"] for step in range(1, 7)] == plain.losses[:6]
    assert reports[12]["loss"] == pytest.approx(plain.losses[11], rel=0.05)


def test_a_batch_that_was_left_out_stays_out(outcomes: dict[str, Outcome]) -> None:
    """Whatever made its gradient infinite: "skip-again" does the steps from 5 on again, and nothing is wrong then."""
    again, once = outcomes["skip-again"], outcomes["skip"]
    assert again.status == exits.FINISHED
    assert again.history.starts[1]["step"] == 4
    assert again.history.left_out == {7}
    text = (again.output / "metrics.jsonl").read_text()
    first, second = (
        [json.loads(line) for line in part.splitlines() if '"event": "step"' in line]
        for part in text.split('"event": "start"')[1:]
    )
    assert [line["loss"] for line in first[4:]] == [line["loss"] for line in second]
    ours, theirs = again.weights(12), outcomes["roll-back"].weights(12)
    assert all(bool((ours[name] == value).all()) for name, value in theirs.items())
    assert once.output == again.output


def test_or_the_run_goes_back_and_leaves_it_out_then(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["roll-back"]
    assert outcome.status == exits.FINISHED
    lines = (outcome.output / "metrics.jsonl").read_text()
    assert '"event": "back", "step": 4' in lines
    assert lines.count('"event": "step", "step": 5,') == 2
    assert [facts["loss"] for facts in outcome.history.steps.values()] == [
        facts["loss"] for facts in outcomes["skip"].history.steps.values()
    ]


def test_one_failure_ends_all_with_its_reason(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["broken-data"]
    assert outcome.status == exits.RETRY
    assert "building the model failed on rank 1 on host" in outcome.message
    assert "the disk with the data is gone" in outcome.message
