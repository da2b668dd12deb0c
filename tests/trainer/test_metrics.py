"""What a run tells of itself while it goes: the slow process, the profile, TensorBoard."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.conftest import PROJECT, Group, Outcome
from trainer import exits, gauges, history, plot
from trainer.stragglers import NEGLIGIBLE, spread

SECONDS = st.floats(1e-6, 1e3)
CASES: dict[str, dict[str, Any]] = {
    "window": {"metrics": {"every": 2, "tensorboard": True, "profile": {"from": 3, "steps": 2}}},
    "window-again": {"output": "window", "metrics": {"tensorboard": True}, "faults": {"forget": 0}},
    "slow": {"steps": 6, "metrics": {"every": 3}, "faults": {"slow": 0.15}},
    "asked": {"steps": 8, "evaluate": {"every": 4}, "faults": {"ask": 2}},
}


@pytest.fixture(scope="module")
def outcomes(group: Group) -> dict[str, Outcome]:
    return group(2, CASES)


@given(values=st.lists(SECONDS, min_size=1, max_size=20))
def test_a_spread_is_ordered_and_names_the_slowest(values: list[float]) -> None:
    one = spread(values)
    assert one.least <= one.middle <= one.most == values[one.slowest]
    assert one.ratio >= 1
    assert len(values) > 1 or one.ratio == 1


@given(values=st.lists(SECONDS, min_size=2, max_size=20), factor=st.floats(1.1, 10))
def test_nobody_is_slow_among_equals_or_by_little(values: list[float], factor: float) -> None:
    assert not spread([values[0]] * len(values)).straggles(factor, values[0])
    one = spread(values)
    assert not one.straggles(factor, 1.01 * (one.most - one.least) / NEGLIGIBLE), (
        "less than that share of a step"
    )


def test_one_of_two_that_takes_twice_as_long_is_slow() -> None:
    one = spread([1.0, 2.0])
    assert (one.slowest, one.ratio) == (1, 2.0)
    assert one.straggles(1.5, 3.0)


@pytest.mark.processes
def test_a_slow_process_is_named(outcomes: dict[str, Outcome]) -> None:
    slow = outcomes["slow"]
    last = slow.history.steps[6]["ranks"]["compute"]
    assert last["slowest"].startswith("rank 1 on host ")
    assert last["max"] > 0.3, "two passes of 0.15 s each"
    assert last["min"] < last["max"] / 2, "the others' waiting counts as their computing"
    warning = f"{last['slowest']} is slow: it computes for 0."
    assert f"warning: step 6: {warning}" in slow.text
    assert f"warning: step 3: {warning}" not in slow.text, "once may be chance"


@pytest.mark.processes
def test_the_time_of_a_step_is_split(outcomes: dict[str, Outcome]) -> None:
    for facts in outcomes["slow"].history.steps.values():
        parts = dict(facts["seconds"])
        whole = parts.pop("step")
        assert set(parts) >= {"data", "wait", "passes", "update"}
        assert 0 < facts["ranks"]["compute"]["max"] < parts["passes"] * 1.05
        assert 0.8 * whole < sum(parts.values()) <= whole * 1.01
        assert facts["memory"]["peak"] >= facts["memory"]["allocated"] > 1 << 20
        assert facts["memory"]["most"] >= facts["memory"]["peak"]
    assert outcomes["slow"].history.ends[-1]["seconds"]["save"] > 0, (
        "the last save comes after the last report"
    )


@pytest.mark.processes
@pytest.mark.parametrize(("name", "steps"), [("window", (3, 4)), ("asked", (3, 5))])
def test_a_profile_of_some_steps(name: str, steps: tuple[int, int], outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[name]
    assert outcome.status == exits.FINISHED
    files = sorted((outcome.output / "profiles").iterdir())
    assert [file.name for file in files] == [f"step-{steps[0]:08d}-rank-{rank}.json.gz" for rank in (0, 1)]
    for file in files:
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
        updates = [event for event in events if event.get("name") == "Optimizer.step#AdamW.step"]
        assert len(updates) == steps[1] - steps[0] + 1, "so many steps were recorded"


def records(folder: Path) -> Iterator[bytes]:
    """Of TensorBoard's event files: length, its checksum, content, its checksum."""
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            yield data[12 : 12 + size]
            data = data[16 + size :]


@pytest.mark.processes
def test_tensorboard_shows_the_same_numbers(outcomes: dict[str, Outcome]) -> None:
    from tensorboardX.proto.event_pb2 import Event

    outcome = outcomes["window-again"]
    events = [Event.FromString(record) for record in records(outcome.output / "tensorboard")]
    restart = max(
        number for number, event in enumerate(events) if event.session_log.status == event.session_log.START
    )
    losses = {
        event.step: value.simple_value
        for event in events[restart:]
        for value in event.summary.value
        if value.tag == "step/loss"
    }
    assert losses == pytest.approx(outcome.history.losses)
    assert list(losses) == list(range(1, 13))


def numbers(facts: dict[str, Any]) -> list[float]:
    """All of them, at whatever depth."""
    found = []
    for value in facts.values():
        if isinstance(value, dict):
            found += numbers(value)
        elif isinstance(value, int | float):
            found.append(value)
    return found


@pytest.mark.processes
def test_every_number_of_a_step_has_a_gauge(outcomes: dict[str, Outcome]) -> None:
    assert list(outcomes["slow"].history.steps) == [3, 6]
    for facts in outcomes["slow"].history.steps.values():
        told = {name: value for name, value in facts.items() if name not in ("event", "time")}
        values = gauges.of_step(told)
        assert values.keys() <= gauges.GAUGES.keys()
        assert sorted(value for value in values.values() if value is not None) == sorted(numbers(told))


@pytest.mark.processes
def test_the_picture_shows_where_the_time_went(outcomes: dict[str, Outcome], tmp_path: Path) -> None:
    run = history.read(outcomes["asked"].output / "metrics.jsonl")
    plot.draw(run, plot.caption(run, "test"), tmp_path / "curve.svg")
    text = (tmp_path / "curve.svg").read_text()
    for words in ("tokens/s", "seconds of a step", "passes", "slowest process, blocks forward"):
        assert f"<!-- {words}" in text, words


def test_without_matplotlib_it_says_what_to_install(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.touch()
    script = "import sys; sys.modules['matplotlib'] = None; from trainer import plot; sys.exit(plot.main())"
    done = subprocess.run(
        [sys.executable, "-c", script, str(metrics), str(tmp_path / "curve.png")],
        cwd=PROJECT, text=True, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert (
        done.stderr == "trainer.plot needs matplotlib: pip install './trainer[plot]', or matplotlib itself\n"
    )
    extras = tomllib.loads((PROJECT / "trainer/pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert extras == {"plot": ["matplotlib"]}
