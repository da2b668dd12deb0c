"""Medians, ratios and tables of the benchmarks."""

from __future__ import annotations

import pytest

from bench import checkpoint, figures, training
from bench.figures import Spread


def test_ratios_are_of_the_same_round() -> None:
    # The machine was twice as slow in the second round, for both.
    assert figures.paired([1.0, 2.0], [1.1, 2.2]) == Spread(
        pytest.approx(1.1), pytest.approx(1.1), pytest.approx(1.1)
    )


def test_columns_stand_below_each_other() -> None:
    lines = figures.table(["what", "n"], [["first", "1"], ["2nd", "1,000"]]).splitlines()
    assert lines == ["what       n", "-----  -----", "first      1", "2nd    1,000"]


def test_the_verdict_is_about_the_fastest_peer() -> None:
    def result(name: str, ratio: float) -> dict[str, object]:
        spread = {"median": ratio, "low": ratio, "high": ratio}
        return {"name": name, "ours_over_this": spread, "cpu_ours_over_this": spread}

    words = training.verdict([result(training.OURS, 1.0), result(training.BARE, 0.995), result("slow", 1.5), result("quick", 1.06)])  # fmt: skip  # noqa: E501
    assert "over the bare loop 0.995 (goal 0.99)" in words
    assert "over the best peer 1.060 (goal 1.05; quick)" in words


def test_a_peer_that_did_not_run_is_named_with_its_error() -> None:
    text = training.show({"results": {"float32": [{"name": "peer", "error": "ImportError: no such thing"}]}})
    assert "peer" in text and "did not run: ImportError: no such thing" in text


def lines(save_seconds: dict[int, float], slower: dict[int, float]) -> list[dict[str, object]]:
    """What a trainer of one-second steps leaves that saves after steps 4, 8 and 12."""
    found: list[dict[str, object]] = [{"event": "start", "step": 0, "parameters": 7}]
    for step in range(1, 13):
        seconds = {"step": 1.0 + save_seconds.get(step, 0.0) + slower.get(step, 0.0)}
        if step in save_seconds:
            seconds["save"] = save_seconds[step]
        found.append({"event": "step", "step": step, "seconds": seconds})
        if step % 4 == 0:
            found.append({"event": "checkpoint", "step": step, "seconds": 3.0})
    return found


def test_a_stall_is_all_that_the_loop_spent_on_one_save() -> None:
    found = checkpoint.stalls(lines({5: 0.5, 7: 0.1, 9: 0.4}, {6: 0.3}))
    assert found["stalls"] == [pytest.approx(0.6), pytest.approx(0.4)]  # the save at the end is not counted
    assert found["lost"] == pytest.approx((0.6 + 0.4 + 0.3) / 2)
    assert found["step"] == 1.0 and found["parameters"] == 7
