"""What the launcher reads from torchrun's arguments before it calls it."""

from __future__ import annotations

import pytest

from trainer.launch import elastic


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], False),
        (["--nnodes", "2", "-m", "trainer"], False),
        (["--nnodes", "1:2", "-m", "trainer"], True),
        (["--nnodes=2:16"], True),
        (["--nnodes=2:2"], False),
        (["--nnodes"], False),
        (["-m", "trainer", "--nnodes", "1:2"], False),
    ],
)
def test_a_range_of_nodes_is_elastic(
    arguments: list[str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PET_NNODES", raising=False)
    assert elastic(arguments) is expected


def test_the_operators_variable_counts_unless_an_argument_says_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_NNODES", "1:4")
    assert elastic([])
    assert not elastic(["--nnodes", "4"])
