"""Preparation and reading of tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.texts import PLAIN_CHAT, chat_tokenizer
from trainer import exits
from trainer.data import batches, documents, prepare, shards, sources


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, shards.Index]:
    folder = tmp_path_factory.mktemp("prepared")
    return folder, prepare.prepare("python-documentation", "byt5", 0.05, folder, shard_tokens=50_000)


def read(stream: shards.Stream, start: int, count: int) -> np.ndarray[Any, Any]:
    return stream.span(start, count)[0]


def counted_of(stream: shards.Stream, start: int, count: int) -> np.ndarray[Any, Any]:
    counted = stream.span(start, count)[1]
    return np.ones(count, dtype=np.bool_) if counted is None else counted


def test_tokens_are_the_bytes_of_the_text(prepared: tuple[Path, shards.Index]) -> None:
    folder, index = prepared
    for split, held_out in ((shards.TRAIN, False), (shards.HELD_OUT, True)):
        expected: list[int] = []
        for document in sources.documents("python-documentation"):
            if documents.held_out(document, document.digest(), 0.05) == held_out:
                expected += [byte + 3 for byte in document.parts[0].text.encode()] + [1]
        stream = shards.Stream(folder, index, split)
        assert len(stream) == index.splits[split].tokens == len(expected)
        assert read(stream, 0, len(stream)).tolist() == expected
    assert len(index.splits[shards.TRAIN].shards) > 3, "several shards, or crossing borders is not tested"
    assert 0.01 < index.splits[shards.HELD_OUT].tokens / index.splits[shards.TRAIN].tokens < 0.15


def test_entropy_of_known_distributions() -> None:
    assert shards.entropy([5, 5, 5, 5]) == pytest.approx(np.log(4))
    assert shards.entropy([9, 0, 0]) == 0.0


def test_a_cut_shard_is_refused(prepared: tuple[Path, shards.Index], tmp_path: Path) -> None:
    folder, index = prepared
    for path in folder.glob("*.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    victim = tmp_path / index.splits[shards.TRAIN].shards[0].file
    victim.write_bytes(victim.read_bytes()[:-2])
    with pytest.raises(exits.Failure, match="prepare the data again"):
        shards.Stream(tmp_path, index, shards.TRAIN)


@given(count=st.integers(0, 40), world=st.integers(1, 9), micro=st.integers(1, 5), length=st.integers(2, 9))
def test_shares_hold_every_window_once(
    prepared: tuple[Path, shards.Index], count: int, world: int, micro: int, length: int
) -> None:
    folder, index = prepared
    stream = shards.Stream(folder, index, shards.TRAIN)
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
    expected = [read(stream, window * length, length + 1).tolist() for window in windows]
    assert sorted(rows) == sorted((tokens[:-1], tokens[1:]) for tokens in expected)


def lines(folder: Path, *objects: object) -> Path:
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, objects)))
    return folder


def test_only_answers_count(tmp_path: Path) -> None:
    source = lines(tmp_path, {"prompt": "2+2=", "answer": "four"}, {"text": "plain"})
    folder = tmp_path / "prepared"
    index = prepare.prepare(source, "byt5", 0.0, folder)
    stream = shards.Stream(folder, index, shards.TRAIN)
    text = "2+2=four\x00plain\x00"  # a zero stands for the end token
    assert [
        max(0, number - 3) if number != 1 else 0 for number in read(stream, 0, len(stream)).tolist()
    ] == list(text.encode())
    assert counted_of(stream, 0, len(stream)).tolist() == [False] * 4 + [True] * (len(text) - 4)
    for start in range(len(stream)):
        count = len(stream) - start
        assert (
            counted_of(stream, start, count).tolist() == counted_of(stream, 0, len(stream)).tolist()[start:]
        )

    (micro,) = batches.Batches(stream, 6, rank=0, world=1, micro=1).share([0])
    assert micro.inputs.tolist() == [[ord(one) + 3 for one in "2+2=fo"]]
    assert micro.targets.tolist() == [[batches.IGNORED] * 3 + [ord(one) + 3 for one in "fou"]]
    assert micro.counted == 3


def test_conversations_follow_the_chat_template(tmp_path: Path) -> None:
    tokenizer = chat_tokenizer(tmp_path / "tokenizer", PLAIN_CHAT)
    (tmp_path / "texts").mkdir()
    said = [
        ("system", "s"),
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "bye"),
        ("assistant", "see you"),
    ]
    source = lines(tmp_path / "texts", {"messages": [{"role": role, "content": text} for role, text in said]})
    index = prepare.prepare(source, str(tmp_path / "tokenizer"), 0.0, tmp_path / "prepared")
    stream = shards.Stream(tmp_path / "prepared", index, shards.TRAIN)
    numbers, counted = read(stream, 0, len(stream)), counted_of(stream, 0, len(stream))
    assert (
        tokenizer.decode(numbers)
        == "[system]s\n[user]hi\n[assistant]hello\n[user]bye\n[assistant]see you\n<end>"
    )
    assert tokenizer.decode(numbers[counted]) == "hello\nsee you\n<end>"

    with pytest.raises(exits.Failure, match="byt5: has no chat template"):
        prepare.prepare(source, "byt5", 0.0, tmp_path / "other")
