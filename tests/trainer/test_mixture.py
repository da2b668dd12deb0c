"""Several sources: how they are dealt out, and that each is read as if it were alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer import exits
from trainer.config import Shuffle
from trainer.data import places, shards
from trainer.data.batches import IGNORED, Batches, _spread
from trainer.data.mixture import Mixture, whole

weights_of = st.lists(st.integers(1, 60), min_size=1, max_size=5)


@given(weights=weights_of)
def test_the_first_samples_hold_each_share_to_less_than_one(weights: list[int]) -> None:
    mixture = Mixture(weights)
    count = 2 * mixture.period
    sources, before = mixture.at(np.arange(count))
    for source, weight in enumerate(weights):
        there = sources == source
        assert before[there].tolist() == list(range(there.sum())), "each source's samples are counted through"
        ahead = np.cumsum(there) - weight / sum(weights) * np.arange(1, count + 1)
        assert np.abs(ahead).max() < 1
        # Any samples in a row: the difference of two of those.
        assert ahead.max() - ahead.min() < (1 if len(weights) <= 2 else 2) + 1e-9


def test_weights_are_taken_as_they_are_written() -> None:
    assert whole([0.7, 0.3]) == [7, 3]
    assert whole([0.1, 0.2, 0.05]) == [2, 4, 1]
    assert whole([30, 20.0]) == [3, 2]
    with pytest.raises(exits.Failure, match="give them fewer digits"):
        whole([0.1234567, 1])


def test_far_ahead_is_as_near_as_the_beginning() -> None:
    mixture = Mixture([0.7, 0.2, 0.1])
    position = 10**15
    sources, before = mixture.at(np.arange(position, position + 10))
    assert sorted(sources.tolist()) == [0] * 7 + [1] * 2 + [2]
    assert before[sources == 2].tolist() == [position // 10]


SEQUENCE = 4


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> list[shards.Stream]:
    """Three sources of 7, 23 and 40 windows. A window's first token tells its source and number."""
    found = []
    for source, windows in enumerate((7, 23, 40)):
        folder = tmp_path_factory.mktemp("source")
        tokens = np.zeros(windows * SEQUENCE + 1, dtype="<u2")
        tokens[:-1:SEQUENCE] = 1000 * (source + 1) + np.arange(windows)
        place = places.Folder(folder)
        cut = 13  # shards that end inside a window
        parts = tuple(
            shards.write_shard(place, f"train-00000-{n:03d}.tokens", piece, None)
            for n, piece in enumerate((tokens[:cut], tokens[cut:]))
        )
        index = shards.Index(
            "byt5", 5000, "<u2", {shards.TRAIN: shards.Split(1, len(tokens), 1.0, parts)}, ""
        )
        index.write(place)
        found.append(shards.Stream(folder, shards.read_index(folder), shards.TRAIN))
    return found


def ids(batches: Batches, step: int, batch: int, seed: int) -> list[int]:
    """Windows of one process in one step."""
    return [
        row[0]
        for micro in batches.step(step, batch, seed)
        for row, targets in zip(micro.inputs.tolist(), micro.targets.tolist(), strict=True)
        if targets[0] != IGNORED
    ]


@settings(max_examples=12)
@given(
    weights=st.lists(st.integers(1, 9), min_size=3, max_size=3),
    batch=st.integers(1, 30),
    worlds=st.lists(st.integers(1, 7), min_size=6, max_size=6),
    micro=st.integers(1, 4),
    seed=st.integers(0, 99),
    shuffle=st.builds(Shuffle, block=st.integers(1, 40), blocks=st.integers(1, 4)),
)
def test_the_ledger(
    streams: list[shards.Stream],
    weights: list[int],
    batch: int,
    worlds: list[int],
    micro: int,
    seed: int,
    shuffle: Shuffle,
) -> None:
    """A run that stops after every step and goes on with another number of processes reads what an unbroken one of one
    process reads; and each source alone is a row of epochs that hold each of its windows once."""

    def opened(rank: int, world: int) -> Batches:
        return Batches(
            streams, SEQUENCE, rank=rank, world=world, micro=micro, weights=weights, shuffle=shuffle
        )

    alone = opened(0, 1)
    stream: list[int] = []
    for step, world in enumerate(worlds * 2, start=1):
        unbroken = ids(alone, step, batch, seed)
        parts = [ids(opened(rank, world), step, batch, seed) for rank in range(world)]
        assert [parts[n % world][n // world] for n in range(batch)] == unbroken
        stream += unbroken
    for source, windows in enumerate(alone.windows_of):
        own = [one % 1000 for one in stream if one // 1000 == source + 1]
        share = weights[source] / sum(weights) * len(stream)
        assert abs(len(own) - share) < 1
        for first in range(0, len(own), windows):
            epoch = own[first : first + windows]
            assert len(set(epoch)) == len(epoch)
            assert len(epoch) < windows or set(epoch) == set(range(windows))


def test_an_evaluation_reads_each_source_by_its_weight(streams: list[shards.Stream]) -> None:
    batches = Batches(streams, SEQUENCE, rank=0, world=1, micro=50, weights=[1, 2, 2])
    (micro,) = batches.evenly(25)
    found = [int(row[0]) for row in micro.inputs[:25]]
    assert [sum(one // 1000 == source for one in found) for source in (1, 2, 3)] == [5, 10, 10]
    assert len(set(found)) == 25
    halves = [
        Batches(streams, SEQUENCE, rank=r, world=2, micro=50, weights=[1, 2, 2]).evenly(25) for r in (0, 1)
    ]
    assert sorted(found) == sorted(int(row[0]) for half in halves for row in half[0].inputs if row[0])


@given(count=st.integers(0, 400), windows=st.integers(1, 2000))
def test_evaluations_spread_over_the_stream(count: int, windows: int) -> None:
    chosen = _spread(count, windows)
    assert len(set(chosen)) == len(chosen) == min(count, windows)
    assert all(0 <= one < windows for one in chosen)
    if count >= 64:
        assert max(chosen) >= windows * 62 // 64
