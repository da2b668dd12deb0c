"""Random tokens as the trainer's own shards, for measurements that don't depend on the text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np


def random_tokens(vocabulary: int, count: int) -> Any:
    """The same at every call."""
    return np.random.default_rng(0).integers(0, vocabulary, count, dtype=np.uint32)


def random_shards(folder: Path, vocabulary: int, count: int, shard: int) -> None:
    """`count` random tokens in shards of `shard`."""
    from trainer.data import shards
    from trainer.data.places import place

    folder.mkdir(parents=True)
    tokens = random_tokens(vocabulary, count).astype(shards.dtype_for(vocabulary))
    made = [
        shards.write_shard(place(folder), f"train-{number:05d}.tokens", part, None)
        for number, part in enumerate(np.split(tokens, count // shard))
    ]
    index(folder, made, vocabulary)


def index(folder: Path, made: list[Any], vocabulary: int) -> None:
    """Write the index of shards of one split, all for training."""
    from trainer.data import shards
    from trainer.data.places import place

    split = shards.Split(1, sum(shard.tokens for shard in made), 0.0, tuple(made))
    splits = {shards.TRAIN: split, shards.HELD_OUT: shards.Split(0, 0, 0.0, ())}
    shards.Index("none", vocabulary, shards.dtype_for(vocabulary), splits, "").write(place(folder))
