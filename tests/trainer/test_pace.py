"""Token bucket and backoff, by a clock that only moves when somebody sleeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.objects.pace import Backoff, Rate


class Clock:
    now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@given(
    per_second=st.floats(0.5, 1000),
    burst=st.floats(1, 50),
    idle=st.lists(st.floats(0, 5), min_size=2, max_size=60),
)
def test_no_span_of_time_sees_more_than_the_rate_and_one_burst(
    per_second: float, burst: float, idle: list[float]
) -> None:
    clock = Clock()
    rate = Rate(per_second, burst, clock=lambda: clock.now, sleep=clock.sleep)
    times = []
    for pause in idle:
        clock.now += pause
        rate.take()
        times.append(clock.now)
    for first in range(len(times)):
        for last in range(first, len(times)):
            assert last - first + 1 <= burst + per_second * (times[last] - times[first]) + 1e-6


def test_a_burst_passes_at_once_and_the_rest_evenly() -> None:
    clock = Clock()
    rate = Rate(10, 3, clock=lambda: clock.now, sleep=clock.sleep)
    assert [rate.take() for _ in range(6)] == pytest.approx([0, 0, 0, 0.1, 0.1, 0.1])


@pytest.mark.parametrize(("per_second", "burst"), [(0, 1), (-1, 1), (5, 0)])
def test_a_rate_that_lets_nothing_pass_is_refused(per_second: float, burst: float) -> None:
    with pytest.raises(ValueError, match="lets nothing pass"):
        Rate(per_second, burst)


@given(failures=st.integers(1, 10_000))
def test_pauses_grow_to_a_limit_and_are_drawn_from_nothing_up(failures: int) -> None:
    backoff = Backoff(0.2, 20)
    span: list[float] = []

    def draw(low: float, high: float) -> float:
        span[:] = [low, high]
        return high

    expected = 0.2 * 2 ** (failures - 1) if failures < 10 else 20
    assert backoff.pause(failures, draw) == min(20, expected)
    assert span[0] == 0.0
