"""Preparation: any format, any number of workers and parts, killed at any moment."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.conftest import ENVIRONMENT, PROJECT
from tests.trainer.crowd import crowd
from tests.trainer.s3 import S3
from tests.trainer.texts import (
    FORGETFUL_CHAT,
    FORMATS,
    LLAMA_2_CHAT,
    PLAIN_CHAT,
    chat_tokenizer,
    records,
    write,
)
from trainer import exits
from trainer.data import prepare, shards, sources, tokenizers
from trainer.data.places import place

SMALL = {"unit_bytes": 20_000, "shard_tokens": 8_000}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".tokens", ".counted")
    }


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "trainer.data.prepare", *map(str, arguments)]


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=PROJECT,
        env=ENVIRONMENT | environment,
        text=True,
        capture_output=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of several files, one of them larger than a unit."""
    folder = tmp_path_factory.mktemp("source")
    write(folder / "a.jsonl", records(40, seed=1))
    write(folder / "b" / "b.jsonl.gz", records(30, seed=2))
    write(folder / "b" / "c.jsonl", records(400, seed=3))
    write(folder / "b" / "d.parquet", records(300, seed=4))
    write(folder / "e.txt", records(1, seed=5))
    return folder


@pytest.fixture(scope="module")
def expected(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source prepared in one go by one process."""
    folder = tmp_path_factory.mktemp("expected")
    prepare.prepare(source, "byt5", 0.05, folder, **SMALL)
    return folder


def same(folder: Path, expected: Path) -> None:
    assert contents(folder) == contents(expected)
    assert (folder / "index.json").read_bytes() == (expected / "index.json").read_bytes()
    assert not list(folder.rglob(".*")), "leftovers"


def documents_of(folder: Path) -> list[bytes]:
    """Texts of all documents, from the shards."""
    index = shards.read_index(folder)
    texts: list[bytes] = []
    for split in index.splits:
        stream = shards.Stream(folder, index, split)
        if not len(stream):
            continue
        numbers, _ = stream.span(0, len(stream))
        ends = np.flatnonzero(numbers == tokenizers.BYT5_END)
        pieces = np.split(numbers, ends + 1)[:-1]
        texts += [(piece[:-1] - tokenizers.BYT5_SPECIAL).astype(np.uint8).tobytes() for piece in pieces]
    return texts


def test_every_document_is_there_once(source: Path, expected: Path) -> None:
    wanted = [
        "".join(str(record.get(key, "")) for key in ("text", "prompt", "answer"))
        for seed, count in ((1, 40), (2, 30), (3, 400), (4, 300), (5, 1))
        for record in records(count, seed=seed)
    ]
    assert sorted(documents_of(expected)) == sorted(text.encode() for text in wanted)
    index = shards.read_index(expected)
    assert len(index.splits[shards.TRAIN].shards) > 10
    assert index.splits[shards.HELD_OUT].documents > 10
    names = [shard.file for split in index.splits.values() for shard in split.shards]
    assert len(set(names)) == len(names)
    shards.verify(expected, index)


@pytest.mark.parametrize("size", [1, 3_000, 50_000, 10**9])
def test_units_of_any_size_hold_each_document_once(
    source: Path, expected: Path, tmp_path: Path, size: int
) -> None:
    if size == 1:  # a slice for each byte: only one small file of each kind that can be cut
        write(tmp_path / "source" / "a.jsonl", records(2, seed=1))
        write(tmp_path / "source" / "b.parquet", records(2, seed=2))
        source = tmp_path / "source"
        wanted = [str(record["text"]).encode() for seed in (1, 2) for record in records(2, seed=seed)]
    else:
        wanted = documents_of(expected)
    prepare.prepare(source, "byt5", 0.0, tmp_path / "prepared", unit_bytes=size if size > 1 else 97)
    assert sorted(documents_of(tmp_path / "prepared")) == sorted(wanted)


def test_the_format_changes_nothing(tmp_path: Path) -> None:
    found = []
    for name in FORMATS:
        for number in range(3):
            write(tmp_path / name / f"{number}{name}", records(50, seed=number, kinds=name != ".txt"))
        if name == ".txt":
            continue
        prepare.prepare(tmp_path / name, "byt5", 0.1, tmp_path / f"prepared{name}", shard_tokens=10_000)
        found.append(contents(tmp_path / f"prepared{name}"))
    assert any(name.endswith(".counted") for name in found[0])
    assert all(one == found[0] for one in found)
    # Plain texts, of which every file is one, against lines of plain texts.
    write(
        tmp_path / "lines" / "0.jsonl",
        [record for n in range(3) for record in records(50, seed=n, kinds=False)],
    )
    for name in ("lines", ".txt"):
        prepare.prepare(tmp_path / name, "byt5", 0.1, tmp_path / "prepared" / name)
    assert contents(tmp_path / "prepared" / "lines") == contents(tmp_path / "prepared" / ".txt")


@pytest.mark.processes
def test_workers_and_parts_change_nothing(source: Path, expected: Path, tmp_path: Path) -> None:
    prepare.prepare(source, "byt5", 0.05, tmp_path / "workers", workers=3, **SMALL)
    same(tmp_path / "workers", expected)

    options = [
        "--source",
        source,
        "--output",
        tmp_path / "parts",
        "--unit-bytes",
        20_000,
        "--shard-tokens",
        8_000,
    ]
    early = run(*options, "--merge")
    assert early.returncode == exits.RETRY
    assert "units are not done (0, 1," in early.stderr
    first = run(*options, "--part", "1/2", "--json")
    assert first.returncode == 0, first.stderr
    facts = json.loads(first.stdout)
    assert (facts["complete"], facts["part"]) == (False, "1/2")
    assert not (tmp_path / "parts" / "index.json").exists()
    last = run(*options, "--parts", 2, "--json", "--workers", 2, JOB_COMPLETION_INDEX="0")
    assert last.returncode == 0, last.stderr
    second = json.loads(last.stdout)
    assert second["complete"]
    assert second["units"] + facts["units"] == facts["units_of_all"]
    same(tmp_path / "parts", expected)

    again = run(*options, "--merge", "--json")
    assert json.loads(again.stdout)["splits"] == second["splits"]
    other = run(*options, "--held-out", 0.5)
    assert other.returncode == exits.CONFIG
    assert "held_out was 0.05, is 0.5" in other.stderr


def take_part(number: int, source: Path, output: Path, of: int) -> tuple[int, bytes]:
    """Do a part as a pod does; returns the exit status and the plan that was found there then."""
    sizes = ["--unit-bytes", "20000", "--shard-tokens", "8000"]
    options = ["--source", str(source), "--output", str(output), *sizes, "--part", f"{number}/{of}"]
    sys.argv = ["prepare", *options]
    return prepare.main(), (output / "plan.json").read_bytes()


def merge_often(_: int, source: Path, output: Path) -> None:
    plan = prepare.plan_of(source, tokenizers.load("byt5"), 0.05, **SMALL)
    for _ in range(20):
        prepare.merge(plan, place(output))


@pytest.mark.processes
def test_pods_that_do_all_at_the_same_moment_do_not_meet(
    source: Path, expected: Path, tmp_path: Path
) -> None:
    done = crowd(6, take_part, source, tmp_path, 6)
    assert {status for status, _ in done} == {0}
    assert {plan for _, plan in done} == {(expected / "plan.json").read_bytes()}
    crowd(6, merge_often, source, tmp_path)
    same(tmp_path, expected)


def claim_often(number: int, source: Path, output: str) -> list[bool]:
    """Claim many folders, each of the crowd for another plan; returns which it got."""
    got = []
    for folder in range(20):
        plan = prepare.plan_of(source, tokenizers.load("byt5"), number / 100, **SMALL)
        try:
            plan.claim(place(f"{output}/{folder}"))
        except exits.Failure as failure:
            assert failure.status == exits.CONFIG
            assert f"is {number / 100}" in str(failure)
            got.append(False)
        else:
            got.append(True)
    return got


def test_one_plan_gets_a_folder(source: Path, tmp_path: Path) -> None:
    for claims in zip(*crowd(4, claim_often, source, str(tmp_path)), strict=True):
        assert sum(claims) == 1


def test_one_plan_gets_a_prefix(source: Path, bucket: str) -> None:
    assert claim_often(1, source, f"s3://{bucket}/claims") == [True] * 20
    assert claim_often(2, source, f"s3://{bucket}/claims") == [False] * 20
    assert claim_often(1, source, f"s3://{bucket}/claims") == [True] * 20


@pytest.mark.processes
def test_killed_at_any_moment_it_goes_on(source: Path, expected: Path, tmp_path: Path) -> None:
    output = tmp_path / "prepared"
    options = ["--source", source, "--output", output, "--unit-bytes", 20_000, "--shard-tokens", 8_000]
    moments = random.Random(7)
    kills = 0
    while kills < 6:
        process = subprocess.Popen(
            command(*options, "--workers", 1 + kills % 2), cwd=PROJECT, env=ENVIRONMENT
        )
        before = len(list(output.glob("units/*.json")))
        # From when there is work to see on: the time before that is Python's.
        while process.poll() is None and len(list(output.glob("units/*.json"))) <= before:
            time.sleep(0.002)
        time.sleep(moments.random() * 0.02)
        process.kill()
        if process.wait() == 0:
            break
        kills += 1
    assert kills >= 3
    assert run(*options).returncode == 0
    same(output, expected)


def test_what_was_spoilt_is_made_again(source: Path, expected: Path, tmp_path: Path) -> None:
    prepare.prepare(source, "byt5", 0.05, tmp_path, **SMALL)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.tokens")}
    victims = sorted(times)[:3]
    victims[0].unlink()
    victims[1].write_bytes(b"short")
    (tmp_path / "units" / f"{victims[2].name.split('-')[-2]}.json").unlink()
    (tmp_path / "index.json").unlink()
    prepare.prepare(source, "byt5", 0.05, tmp_path, **SMALL)
    same(tmp_path, expected)
    untouched = [path for path, when in times.items() if path.stat().st_mtime_ns == when]
    assert len(times) / 2 < len(untouched) < len(times)


def test_copies_within_a_unit(tmp_path: Path) -> None:
    lines = records(20, seed=1)
    write(tmp_path / "source" / "a.jsonl", [*lines, *lines[:5], *lines[3:9]])
    prepare.prepare(tmp_path / "source", "byt5", 0.2, tmp_path / "all")
    prepare.prepare(tmp_path / "source", "byt5", 0.2, tmp_path / "once", deduplicate=True)
    assert len(documents_of(tmp_path / "all")) == 31
    assert sorted(documents_of(tmp_path / "once")) == sorted(set(documents_of(tmp_path / "all")))


Spoil = Callable[[Path], None]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("a.jsonl", lambda path: path.write_text('{"text": "a"}\n\n{"text": \n'), r"a\.jsonl:3: expected a text"),
        ("a.jsonl", lambda path: path.write_bytes(b'{"text": "a"}\n{"text": "\xff"}\n'), r"a\.jsonl:2: expected"),
        ("a.jsonl", lambda path: path.write_text('{"text": "\\ud800"}\n'), r"a\.jsonl:1: expected"),
        ("a.jsonl.gz", cut, r"a\.jsonl\.gz: damaged or cut off"),
        ("a.jsonl.zst", cut, r"a\.jsonl\.zst: damaged or cut off"),
        ("a.jsonl.gz", lambda path: path.write_text("plain"), r"a\.jsonl\.gz: damaged or cut off"),
        ("a.jsonl.zst", lambda path: path.write_text("plain"), r"a\.jsonl\.zst: damaged or cut off"),
        ("a.parquet", cut, r"a\.parquet: damaged or no Parquet file"),
        ("a.parquet", lambda path: write(path, [{"words": "1"}]), r"a\.parquet: no column text.* only words"),
        ("a.parquet", lambda path: write(path, [{"text": "1"}, {"text": None}]), r"a\.parquet:2: expected"),
        ("a.txt", lambda path: path.write_bytes(b"\xff\xfe"), r"a\.txt:1: expected"),
    ],
)  # fmt: skip
def test_errors_name_the_place(tmp_path: Path, name: str, spoil: Spoil, message: str) -> None:
    write(tmp_path / "source" / name, records(200, seed=1))
    spoil(tmp_path / "source" / name)
    with pytest.raises(exits.Failure, match=message):
        prepare.prepare(tmp_path / "source", "byt5", 0.0, tmp_path / "prepared")
    assert not (tmp_path / "prepared" / "index.json").exists()


@pytest.mark.parametrize(
    "line",
    [
        {"words": 1}, {"text": 5}, {"prompt": "no answer"}, {"messages": []}, {"messages": [{"role": "user"}]},
        "text", 3,
    ],
)  # fmt: skip
def test_lines_that_are_none_of_the_three_kinds(tmp_path: Path, line: object) -> None:
    write(tmp_path / "a.jsonl", [{"text": "a"}, line])
    with pytest.raises(
        exits.Failure, match=r"a.jsonl:2: expected a text, a prompt and an answer, or messages"
    ):
        list(sources.documents(tmp_path))


@pytest.mark.parametrize("name", [".jsonl", ".jsonl.zst"])
def test_bad_records_stop_or_are_counted(tmp_path: Path, name: str) -> None:
    good = records(60, seed=1)
    write(tmp_path / "source" / f"a{name}", [*good[:40], {"words": 1}, *good[40:]])
    with pytest.raises(exits.Failure, match=rf"a{name}:41: expected a text"):
        prepare.prepare(tmp_path / "source", "byt5", 0.0, tmp_path / "stopped", unit_bytes=5_000)
    index = prepare.prepare(
        tmp_path / "source", "byt5", 0.0, tmp_path / "skipped", unit_bytes=5_000, skip_bad=True
    )
    assert index.splits[shards.TRAIN].documents == 60


def conversation(*roles: str) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": f"word {number}"} for number, role in enumerate(roles)]}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("name", "template", "bad", "message"),
    [
        (".jsonl", LLAMA_2_CHAT, ["user", "user", "assistant"],
         "the chat template refuses the conversation: Conversation roles must alternate"),
        (".jsonl.gz", LLAMA_2_CHAT, ["assistant", "user"],
         "the chat template refuses the conversation: Conversation roles must alternate"),
        (".parquet", "{{ messages[0].content }}{% if messages[1:] %}{{ messages[1].content }}{% endif %}"
                     "{{ (messages[2:] | first).content }}", ["user", "assistant"],
         "the chat template refuses the conversation: No first item, sequence was empty."),
        (".jsonl", PLAIN_CHAT + "{{ messages[0].content[0] + messages | length }}", ["user", "assistant"],
         "the chat template refuses the conversation: can only concatenate str"),
        (".jsonl.zst", FORGETFUL_CHAT, ["user", "assistant", "user", "assistant"],
         "the chat template changes what it wrote before"),
        (".jsonl", "{{ messages | length if add_generation_prompt else messages[0].content }}",
         ["user", "assistant"], "the chat template changes what it wrote before"),
    ],
)  # fmt: skip
@pytest.mark.processes
def test_conversations_that_the_chat_template_refuses(
    name: str, template: str, bad: list[str], message: str, workers: int, tmp_path: Path
) -> None:
    """As any other bad record: named by file and line, or left out and counted."""
    chat_tokenizer(tmp_path / "tokenizer", template)
    alone = "length" in template or name == ".parquet"
    good = {"text": "plain"} if alone else conversation("user", "assistant")
    write(
        tmp_path / "source" / f"a{name}",
        [*[good] * 100, conversation(*bad), *[good] * 20, conversation(*bad)],
    )
    what = (tmp_path / "source", str(tmp_path / "tokenizer"), 0.0)
    options: dict[str, Any] = {"workers": workers, "unit_bytes": 2_000}
    with pytest.raises(exits.Failure, match=rf"/source/a{name}:(101|122): {re.escape(message)}") as told:
        prepare.prepare(*what, tmp_path / "stopped", **options)
    assert told.value.status == exits.CONFIG
    assert not (tmp_path / "stopped" / "index.json").exists()
    index = prepare.prepare(*what, tmp_path / "skipped", skip_bad=True, **options)
    assert index.splits[shards.TRAIN].documents == 120


@pytest.mark.processes
def test_the_command_says_which_conversation_it_was_and_counts_those_left_out(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "tokenizer", LLAMA_2_CHAT)
    good, bad = conversation("system", "user", "assistant"), conversation("user", "user", "assistant")
    write(tmp_path / "source" / "a.jsonl", [good, bad, good, bad])
    options = ["--source", tmp_path / "source", "--tokenizer", tmp_path / "tokenizer", "--json"]
    stopped = run(*options, "--output", tmp_path / "stopped")
    assert stopped.returncode == exits.CONFIG
    (line,) = stopped.stderr.splitlines()
    assert line.startswith(f"{tmp_path}/source/a.jsonl:2: the chat template refuses the conversation: ")
    skipped = run(*options, "--output", tmp_path / "skipped", "--skip-bad")
    assert skipped.returncode == 0, skipped.stderr
    facts = json.loads(skipped.stdout)
    assert facts["skipped"] == 2
    assert sum(split["documents"] for split in facts["splits"].values()) == 2


def test_a_chat_template_that_is_none_is_no_conversation_s_fault(tmp_path: Path) -> None:
    chat_tokenizer(tmp_path / "tokenizer", "{% for m in messages %}")
    write(tmp_path / "source" / "a.jsonl", [{"text": "plain"}, conversation("user", "assistant")])
    with pytest.raises(
        exits.Failure, match=r"data\.tokenizer .*/tokenizer: its chat template is none: "
    ) as told:
        prepare.prepare(
            tmp_path / "source", str(tmp_path / "tokenizer"), 0.0, tmp_path / "prepared", skip_bad=True
        )
    assert told.value.status == exits.CONFIG


def test_another_key_and_other_columns(tmp_path: Path) -> None:
    plain: list[Any] = [{"content": record["text"], "id": "5"} for record in records(20, seed=1, kinds=False)]
    for name in (".jsonl", ".parquet"):
        write(tmp_path / name / f"a{name}", plain)
        prepare.prepare(tmp_path / name, "byt5", 0.0, tmp_path / f"prepared{name}", text="content")
    assert contents(tmp_path / "prepared.jsonl") == contents(tmp_path / "prepared.parquet")
    assert sorted(documents_of(tmp_path / "prepared.jsonl")) == sorted(
        one["content"].encode() for one in plain
    )


@pytest.fixture
def bucket(s3_server: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    yield s3_server.bucket()


def test_from_and_to_s3(source: Path, expected: Path, s3_server: S3, bucket: str, tmp_path: Path) -> None:
    client = s3_server.client()
    for path in source.rglob("*.*"):
        key = f"texts/{path.relative_to(source).as_posix()}"
        client.put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    prepare.prepare(f"s3://{bucket}/texts", "byt5", 0.05, f"s3://{bucket}/prepared", **SMALL)
    for name, content in {**contents(expected), "index.json": (expected / "index.json").read_bytes()}.items():
        assert client.get_object(Bucket=bucket, Key=f"prepared/{name}")["Body"].read() == content, name
    written = [
        request.key for request in s3_server.requests if request.bucket == bucket and request.method == "PUT"
    ]
    assert len(set(written)) == len(written)
    assert written[-1] == "prepared/index.json"


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    for text in ("2/2", "1", "a/3", "-1/2"):
        with pytest.raises(exits.Failure, match="expected I/N"):
            prepare.which(text, None)
    with pytest.raises(exits.Failure, match=r"no \.txt, \.jsonl"):
        prepare.prepare(tmp_path, "byt5", 0.0, tmp_path / "prepared")
    with pytest.raises(exits.Failure, match="write s3://bucket/prefix"):
        prepare.prepare("http://somewhere/texts", "byt5", 0.0, tmp_path / "prepared")
