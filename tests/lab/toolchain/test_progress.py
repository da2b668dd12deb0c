"""The estimate corrects itself, and without a terminal there are plain lines."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lab.toolchain.progress import Estimate, Progress, duration
from lab.toolchain.schedule import Step


def test_at_first_the_benchmark_machine_s_pace_is_assumed() -> None:
    assert Estimate(total=1200, cores=2, begun=0).remaining(seen=0, guessed=0, now=0) == pytest.approx(600)


@pytest.mark.parametrize("slowness", [0.5, 1.0, 3.0])
def test_the_estimate_follows_what_this_machine_shows(slowness: float) -> None:
    """Half-way through a build on a machine that takes `slowness` times as long."""
    estimate = Estimate(total=2000, cores=2, begun=0)
    left = estimate.remaining(seen=1000, guessed=0, now=slowness * 500)
    assert left == pytest.approx(slowness * 500, rel=0.12)


def test_what_is_only_guessed_shortens_the_rest_and_not_the_pace() -> None:
    estimate = Estimate(total=2000, cores=2, begun=0)
    seen, both = estimate.remaining(500, 0, now=500), estimate.remaining(500, 300, now=500)
    assert both == pytest.approx(seen * 1200 / 1500)


def test_nothing_left_takes_no_time() -> None:
    assert Estimate(total=100, cores=2, begun=0).remaining(seen=100, guessed=0, now=50) == 0


def test_plain_lines_name_each_step_as_it_ends() -> None:
    out = io.StringIO()
    first = Step("build:kwok", "go", lambda _: None, weight=100, label="kwok v0.8.0")
    second = Step("image:base", "image", lambda _: None, weight=50)
    with Progress(Console(file=out, width=200), [first, second]) as progress:
        progress.started(first)
        progress.advanced(first, 5, 10)
        progress.finished(first, 130)
        progress.started(second)
        progress.noted(second, "unchanged")
        progress.finished(second, 1)
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].split("  ")[0] == "[ 1/2] kwok v0.8.0" and "2 min 10 s" in lines[0] and "left" in lines[0]
    assert lines[1].startswith("[ 2/2] image:base") and lines[1].endswith("unchanged")


def test_a_terminal_shows_what_is_at_work_and_how_far() -> None:
    out = io.StringIO()
    step = Step("build:kwok", "go", lambda _: None, weight=100, label="kwok v0.8.0")
    with Progress(Console(file=out, width=120, force_terminal=True), [step]) as progress:
        progress.started(step)
        progress.advanced(step, 1234, 2000)
        assert progress._live is not None
        progress._live.refresh()
        progress.finished(step, 5)
    assert "kwok v0.8.0" in out.getvalue() and "1,234 of 2,000 packages" in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (99, "99 s"), (130, "2 min 10 s"), (599.9, "10 min"), (1560, "26 min")],
)
def test_durations_are_as_exact_as_they_are_worth(seconds: float, text: str) -> None:
    assert duration(seconds) == text
