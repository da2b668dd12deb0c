"""Steps run after what they need, side by side where they can, and one failure ends them all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.toolchain.errors import ToolchainError
from lab.toolchain.schedule import Schedule, Step, Work


class Silent:
    def started(self, step: Step) -> None: ...
    def advanced(self, step: Step, done: int, total: int) -> None: ...
    def noted(self, step: Step, text: str) -> None: ...
    def finished(self, step: Step, seconds: float) -> None: ...


def schedule(tmp_path: Path, *steps: Step, **lanes: int) -> Schedule:
    return Schedule(steps, lanes or {"cpu": 2}, tmp_path / "logs", Silent())


def step(name: str, work: Callable[[Work], object], *needs: str, lane: str = "cpu") -> Step:
    return Step(name, lane, lambda given: (work(given), None)[1], frozenset(needs))


def test_a_step_waits_for_what_it_needs(tmp_path: Path) -> None:
    order: list[str] = []
    plan = schedule(
        tmp_path,
        step("image", lambda _: order.append("image"), "program", "base"),
        step("program", lambda _: order.append("program"), "modules"),
        step("modules", lambda _: order.append("modules")),
        step("base", lambda _: order.append("base")),
    )
    plan.run()
    assert sorted(order) == ["base", "image", "modules", "program"]
    assert order.index("modules") < order.index("program") < order.index("image")
    assert order.index("base") < order.index("image")
    assert set(plan.timings) == set(order)


def test_a_lane_is_never_fuller_than_it_may_be_and_lanes_run_side_by_side(tmp_path: Path) -> None:
    now, peak = {"cpu": 0, "net": 0}, {"cpu": 0, "net": 0}
    together = threading.Barrier(3, timeout=60)
    lock = threading.Lock()

    def work(lane: str, first: bool) -> Callable[[Work], object]:
        def busy(_: Work) -> None:
            with lock:
                now[lane] += 1
                peak[lane] = max(peak[lane], now[lane])
            if first:
                together.wait()  # two of one lane and one of the other must be at work at once to pass
            with lock:
                now[lane] -= 1

        return busy

    steps = [step(f"cpu{n}", work("cpu", n < 2)) for n in range(5)]
    steps += [step(f"net{n}", work("net", n < 1), lane="net") for n in range(3)]
    schedule(tmp_path, *steps, cpu=2, net=1).run()
    assert peak == {"cpu": 2, "net": 1}


def test_the_first_failure_ends_the_commands_of_the_others_and_starts_nothing_more(tmp_path: Path) -> None:
    started = threading.Event()
    ran: list[str] = []
    lines: list[str] = []

    def heard(line: str) -> None:
        lines.append(line.strip())
        started.set()

    def slow(work: Work) -> None:
        work.commands.run(["sh", "-c", "echo begun; sleep 60; echo over"], on_line=heard)

    def failing(work: Work) -> None:
        assert started.wait(60)
        work.commands.run(["sh", "-c", "echo the reason; exit 3"])

    with pytest.raises(
        ToolchainError, match=r"(?s)broken: .*ended with 3.*the reason.*The whole log: .*broken\.log"
    ):
        schedule(
            tmp_path,
            step("slow", slow),
            step("broken", failing),
            step("later", lambda _: ran.append("later"), "slow"),
        ).run()
    assert lines == ["begun"]
    assert not ran


def test_steps_that_need_what_is_not_there_or_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs \\['b'\\]"):
        schedule(tmp_path, step("a", print, "b"))
    with pytest.raises(ValueError, match="wait for each other: a, b"):
        schedule(tmp_path, step("a", print, "b"), step("b", print, "a"), step("c", print))
