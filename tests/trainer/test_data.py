"""Preparation and reading of tokens."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer import exits
from trainer.data import batches, prepare, shards, sources


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, shards.Index]:
    folder = tmp_path_factory.mktemp("prepared")
    return folder, prepare.prepare("python-documentation", "byt5", 0.05, folder, size=50_000)


def test_tokens_are_the_bytes_of_the_text(prepared: tuple[Path, shards.Index]) -> None:
    folder, index = prepared
    for split, held_out in ((prepare.TRAIN, False), (prepare.HELD_OUT, True)):
        expected: list[int] = []
        for document in sources.documents("python-documentation"):
            if document.held_out(0.05) == held_out:
                expected += [byte + 3 for byte in document.text.encode()] + [1]
        stream = shards.Stream(folder, index, split)
        assert len(stream) == index.splits[split].tokens == len(expected)
        assert stream.read(0, len(stream)).tolist() == expected
    assert len(index.splits[prepare.TRAIN].shards) > 3, "several shards, or crossing borders is not tested"
    assert 0.01 < index.splits[prepare.HELD_OUT].tokens / index.splits[prepare.TRAIN].tokens < 0.15


def test_workers_change_nothing_and_a_second_run_does_nothing(
    prepared: tuple[Path, shards.Index], tmp_path: Path
) -> None:
    _, index = prepared
    assert prepare.prepare("python-documentation", "byt5", 0.05, tmp_path, workers=2, size=50_000) == index
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.tokens")}
    next(iter(times)).unlink()
    next(iter(tmp_path.glob("held-out-*.json"))).unlink()  # as if killed before this unit was noted
    assert prepare.prepare("python-documentation", "byt5", 0.05, tmp_path, size=50_000) == index


def test_entropy_of_known_distributions() -> None:
    assert shards.entropy([5, 5, 5, 5]) == pytest.approx(np.log(4))
    assert shards.entropy([9, 0, 0]) == 0.0


def test_a_cut_shard_is_refused(prepared: tuple[Path, shards.Index], tmp_path: Path) -> None:
    folder, index = prepared
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    victim = tmp_path / index.splits[prepare.TRAIN].shards[0].file
    victim.write_bytes(victim.read_bytes()[:-2])
    with pytest.raises(exits.Failure, match="prepare the data again"):
        shards.Stream(tmp_path, index, prepare.TRAIN)


def test_folders_of_text_and_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("eins")
    (tmp_path / "b.jsonl").write_text('{"text": "zwei"}\n\n{"text": "drei"}\n')
    with gzip.open(tmp_path / "c.jsonl.gz", "wt") as file:
        file.write(json.dumps({"text": "vier"}) + "\n")
    assert [document.text for document in sources.documents(tmp_path)] == ["eins", "zwei", "drei", "vier"]
    (tmp_path / "d.jsonl").write_text('{"words": 1}\n')
    with pytest.raises(exits.Failure, match=r"d.jsonl:1"):
        list(sources.documents(tmp_path))


@given(count=st.integers(0, 40), world=st.integers(1, 9), micro=st.integers(1, 5), length=st.integers(2, 9))
def test_shares_hold_every_window_once(
    prepared: tuple[Path, shards.Index], count: int, world: int, micro: int, length: int
) -> None:
    folder, index = prepared
    stream = shards.Stream(folder, index, prepare.TRAIN)
    windows = list(range(3, 3 + count))
    rows, passes = [], set()
    for rank in range(world):
        share = batches.Batches(stream, length, rank=rank, world=world, micro=micro).share(windows)
        passes.add(len(share))
        rows += [
            (inputs, targets)
            for one in share
            for inputs, targets in zip(one.inputs.tolist(), one.targets.tolist(), strict=True)
            if targets[0] != batches.IGNORED
        ]
    assert len(passes) == 1, "every process must make the same number of passes"
    expected = [stream.read(window * length, length + 1).tolist() for window in windows]
    assert sorted(rows) == sorted((tokens[:-1], tokens[1:]) for tokens in expected)
