"""The order of samples: complete, pure, and cheap at any position."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.order import Order, mix, permuted


@given(count=st.integers(1, 700), key=st.integers(0, 2**64))
def test_a_permutation_hits_everything_once(count: int, key: int) -> None:
    assert sorted(permuted(range(count), count, key).tolist()) == list(range(count))


@given(count=st.integers(1, 10**12), key=st.integers(0, 2**64), data=st.data())
def test_it_is_the_network_of_the_paper(count: int, key: int, data: st.DataObject) -> None:
    """Written down once more, with Python's numbers and one element at a time."""
    index = start = data.draw(st.integers(0, count - 1))
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    while True:
        left, right = divmod(index, 1 << half)
        for turn in range(4):
            left, right = right, left ^ (mix(right ^ mix(key + turn)) % (1 << half))
        index = (left << half) + right
        if index < count:
            break
    assert permuted([start], count, key).tolist() == [index]


orders = st.builds(
    Order,
    count=st.integers(1, 90),
    seed=st.integers(0, 2**32),
    block=st.integers(1, 9),
    blocks=st.integers(1, 5),
)


@settings(max_examples=30)
@given(order=orders, batch=st.integers(7, 90))
def test_every_epoch_has_each_sample_once_whatever_the_batch(order: Order, batch: int) -> None:
    positions = np.arange(3 * order.count)
    stream = [
        sample
        for first in range(0, len(positions), batch)
        for sample in order.samples(positions[first : first + batch]).tolist()
    ]
    for epoch in range(3):
        assert sorted(stream[epoch * order.count : (epoch + 1) * order.count]) == list(range(order.count))
    assert order.samples(positions[::-1]).tolist() == stream[::-1], "any position, in any order"


@settings(max_examples=40)
@given(order=orders)
def test_a_group_takes_its_samples_from_its_blocks(order: Order) -> None:
    positions = np.arange(2 * order.count)
    groups, samples = order.group(positions), order.samples(positions)
    assert groups.tolist() == sorted(groups.tolist())
    assert set(groups.tolist()) == set(range(2 * order.groups))
    for group in range(2 * order.groups):
        blocks = order.blocks_of(group)
        assert {sample // order.block for sample in samples[groups == group].tolist()} == set(blocks)
        assert len(blocks) == len(set(blocks)) <= 2 * order.blocks + 1 or order.groups == 1


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    for block in (100, 5):  # mixed as a whole, and in groups of 4 blocks
        found = [
            Order(100, seed, block, 4).samples(np.arange(100) + 100 * epoch).tolist()
            for epoch, seed in ((0, 1), (1, 1), (0, 2))
        ] + [list(range(100))]
        assert all(one != other for at, one in enumerate(found) for other in found[at + 1 :])


def test_neighbours_are_scattered() -> None:
    """A shuffle that keeps neighbours together would feed documents in order. Expected mean distance: a third."""
    count = 10_000
    for order in (Order(count, 7, count, 1), Order(count, 7, 10, 100)):
        places = order.samples(np.arange(2_000)).tolist()
        mean = sum(abs(a - b) for a, b in itertools.pairwise(places)) / (len(places) - 1)
        assert 0.29 * count < mean < 0.38 * count


def test_a_position_of_a_million_million_costs_no_more() -> None:
    """No test would live to see the end of it, were what comes before computed or kept."""
    order = Order(5 * 10**11, 3, 1024, 64)
    samples = order.samples(np.arange(10**15, 10**15 + 1024))
    assert len(set(samples.tolist())) == 1024
