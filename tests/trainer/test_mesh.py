"""How processes are arranged; and all the arrangements at once, by eight of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trainer import jobs, spread
from tests.trainer.conftest import Group, Outcome
from trainer import config, exits, mesh

FOUR_HEADS = {"model": {"kv_heads": 4}}
CUBES: dict[str, dict[str, Any]] = {
    "copies-shards-tensor": {
        "parallel": {"strategy": "HYBRID_SHARD", "shard_size": 4, "tensor": 2}, "batch": {"micro": 1}, **FOUR_HEADS,
    },
    "shards-context-tensor": {"parallel": {"context": 2, "tensor": 2}, "batch": {"micro": 2}, **FOUR_HEADS},
    "copies-context-tensor": {
        "parallel": {"strategy": "NO_SHARD", "context": 2, "tensor": 2}, "recompute": {"mode": "full"}, **FOUR_HEADS,
    },
}  # fmt: skip
"""Two by two by two."""


@pytest.fixture(scope="module")
def cubes(group: Group) -> dict[str, Outcome]:
    return group(8, CUBES)


@pytest.fixture(scope="module")
def plain(cubes: dict[str, Outcome]) -> Any:
    from tests.trainer import reference

    folder = cubes["copies-shards-tensor"].output
    return reference.train(jobs.job(folder, **FOUR_HEADS), folder / "data")


@pytest.mark.processes
@pytest.mark.parametrize("name", CUBES)
def test_three_dimensions_equal_the_plain_training(name: str, cubes: dict[str, Outcome], plain: Any) -> None:
    spread.check_equal(cubes[name], plain)


@pytest.mark.parametrize(
    ("settings", "world", "node", "expected"),
    [
        ({}, 16, 8, (1, 16)),
        ({"tensor": 8}, 128, 8, (1, 16)),
        ({"strategy": "NO_SHARD"}, 16, 8, (16, 1)),
        ({"strategy": "NO_SHARD", "tensor": 4}, 16, 8, (4, 1)),
        ({"strategy": "HYBRID_SHARD"}, 32, 8, (4, 8)),
        ({"strategy": "HYBRID_SHARD", "tensor": 4}, 32, 8, (4, 2)),
        ({"strategy": "HYBRID_SHARD", "shard_size": 16, "tensor": 8}, 32, 8, (2, 2)),
    ],
)
def test_copies_and_shards(
    settings: dict[str, Any], world: int, node: int, expected: tuple[int, int]
) -> None:
    assert mesh.sizes(config.Parallel(**settings), world, node) == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tensor": 3}, "parallel.tensor 3 does not divide the 8 processes of a node"),
        ({"tensor": 16}, "parallel.tensor 16 does not divide the 8 processes of a node"),
        (
            {"tensor": 8, "context": 3},
            "parallel.tensor 8 x parallel.context 3 does not divide the 32 processes",
        ),
        ({"strategy": "HYBRID_SHARD", "shard_size": 12}, "parallel.shard_size 12 does not divide the 32"),
    ],
)
def test_groups_that_do_not_come_out_even_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(exits.Failure, match=message) as caught:
        mesh.sizes(config.Parallel(**settings), 32, 8)
    assert caught.value.status == exits.CONFIG
