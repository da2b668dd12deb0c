"""The order of samples: complete, pure, and cheap at any position."""

from __future__ import annotations

import itertools
import time

from hypothesis import given
from hypothesis import strategies as st

from trainer.data import order


@given(count=st.integers(1, 700), key=st.integers(0, 2**64))
def test_a_permutation_hits_everything_once(count: int, key: int) -> None:
    assert sorted(order.permuted(index, count, key) for index in range(count)) == list(range(count))


@given(count=st.integers(1, 60), batch=st.integers(1, 90), seed=st.integers(0, 2**32))
def test_every_epoch_has_each_sample_once_whatever_the_batch(count: int, batch: int, seed: int) -> None:
    steps = -(-3 * count // batch)
    stream = [one for step in range(1, steps + 1) for one in order.samples_of_step(step, batch, count, seed)]
    for epoch in range(3):
        assert sorted(stream[epoch * count : (epoch + 1) * count]) == list(range(count))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    def epoch(number: int, seed: int) -> list[int]:
        return [order.sample(number * 100 + place, 100, seed) for place in range(100)]

    orders = [epoch(0, 1), epoch(1, 1), epoch(0, 2), list(range(100))]
    assert all(one != other for at, one in enumerate(orders) for other in orders[at + 1 :])


def test_neighbours_are_scattered() -> None:
    """A shuffle that keeps neighbours together would feed documents in order. Expected mean distance: a third."""
    count = 10_000
    places = [order.permuted(index, count, 7) for index in range(2_000)]
    mean = sum(abs(a - b) for a, b in itertools.pairwise(places)) / (len(places) - 1)
    assert 0.30 * count < mean < 0.37 * count


def test_a_position_of_a_million_million_costs_no_more() -> None:
    began = time.perf_counter()
    samples = order.samples_of_step(10**12, 1024, 5 * 10**11, 3)
    assert time.perf_counter() - began < 1.0
    assert len(set(samples)) == 1024
