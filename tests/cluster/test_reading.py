"""The reader of stack files: one reading of what all YAML readers read alike, and a refusal of the rest."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from cluster.settings import SettingsError, load_stack_file
from cluster.settings.reading import MAX_DEPTH, read

STACKS = Path(__file__).parents[2] / "stacks"
EXAMPLES = int(os.environ.get("SHARDYARD_FUZZ_EXAMPLES", "60"))
"""For long campaigns: SHARDYARD_FUZZ_EXAMPLES=20000 pytest tests/cluster/test_reading.py."""

AMBIGUOUS = [
    *("yes", "No", "on", "OFF"),
    *("012", "012345678901", "0o17", "0x1F", "0b11", "-0x3", "1_000", "+5", "-0"),
    *("1:30", "190:20:30", "-1:30", "1:30.5"),
    *("1e3", "24e400", "1.5e3", "1.0", "1.30", "1.", ".5", "1_0.5", ".inf", "-.INF", ".nan"),
    *("12345678901234567890123", "18446744073709551616"),
    *("2027-01-01", "2027-1-1", "2027-01-01T11:30:00Z", "2027-01-01 11:30:00"),
    *("=", "<<"),
]
ALIKE: list[tuple[str, object]] = [
    *[
        (text, text)
        for text in ("text", "1.34.9-20260801", "10.0.0.0/8", "250m", "15d", "512Mi", "v1.2.3", "y", "N")
    ],
    *[(f'"{text}"', text) for text in AMBIGUOUS],
    *[(f"'{text}'", text) for text in ("1.34", "true", "~", "")],
    *[("0", 0), ("16", 16), ("-3", -3), ("0.05", 0.05), ("-1.25", -1.25), ("9007199254740991", 2**53 - 1)],
    *[("true", True), ("FALSE", False), ("~", None), ("null", None), ("", None)],
    *[("[1, '1', [a]]", [1, "1", ["a"]]), ("{a: {b: c}}", {"a": {"b": "c"}})],
]


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcde", "bcdef", strict=True)
)


def document(folder: Path, text: str | bytes) -> Path:
    file = folder / "Pulumi.test.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def refused(folder: Path, text: str | bytes) -> str:
    with pytest.raises(SettingsError) as caught:
        read(document(folder, text))
    assert all(problem.what and problem.todo for problem in caught.value.problems)
    return str(caught.value)


@pytest.mark.parametrize("scalar", AMBIGUOUS)
def test_what_readers_read_differently_is_refused(tmp_path: Path, scalar: str) -> None:
    said = refused(tmp_path, f"config:\n  shardyard:region:\n    - a\n    - {scalar}\n")
    assert "shardyard:region[1] (line 4, column 7)" in said
    assert f"{scalar!r} is read differently" in said or scalar == "<<"


@pytest.mark.parametrize("scalar", [one for one in AMBIGUOUS if one != "<<"])
def test_the_same_of_keys(tmp_path: Path, scalar: str) -> None:
    assert "is read differently" in refused(tmp_path, f"config:\n  {scalar}: a\n")


@pytest.mark.parametrize(("text", "value"), ALIKE)
def test_what_readers_read_alike_is_read(tmp_path: Path, text: str, value: object) -> None:
    found = read(document(tmp_path, f"config: {text}\n"))["config"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {x: 1, y: 2, x: 3}", "a.x (line 1, column 17)\n  is there already, in line 1"),
        ("a: 1\nb: 2\na: 3", "a (line 3, column 1)\n  is there already, in line 1"),
        ("a: !!binary aGk=", "tag:yaml.org,2002:binary"),
        ("a: !!set {b}", "tag:yaml.org,2002:set"),
        ("a: !!python/object:os.system {}", "has the tag"),
        ("a: ! 12", "has the tag !"),
        ("a: &q {b: 1}\nc: {<<: *q}", "merge keys"),
        ("a: 1\n---\nb: 2", "(line 2, column 1)\n  is a second document"),
        ("a: &q [*q]", "*q contains itself"),
        ("a: *q", "no anchor &q"),
        ("%YAML 1.1\n---\na: 1", "% directive"),
        ("{1: a}", "the key '1' is not text"),
        ("? [a]\n: b", "a key that is not text"),
        ("a: " + "[" * (MAX_DEPTH + 2), f"more than {MAX_DEPTH} levels"),
        ("a: " + "[" * 100_000, f"more than {MAX_DEPTH} levels"),
        (LAUGHS, "more than 20000 values"),
        ("a: [b", "(line 1, column 6)\n  is not valid YAML"),
        ("a:\n\t- b", "is not valid YAML"),
        (b"a: caf\xe9", "can't be read as UTF-8: byte 6 is 0xe9"),
        ("a: b".encode("utf-16"), "UTF-8"),
        (b"a: 1\nb: \x00", "(line 2)\n  has the character U+0000"),
        ('a: "\\0"', "U+0000"),
        ('a: "\\ud800"', "U+D800"),
        ('a: "\\UFFFFFFFF"', "doesn't exist"),
        ('a: "\\U00110000"', "doesn't exist"),
    ],
)  # fmt: skip
def test_what_no_stack_file_needs_is_refused(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert said in refused(tmp_path, text)


def test_a_byte_order_mark_and_aliases_are_read(tmp_path: Path) -> None:
    file = document(tmp_path, b"\xef\xbb\xbfa: &q {b: 1}\nc: [*q, *q]\n")
    assert read(file) == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}


def test_a_path_that_can_not_be_read_is_a_problem(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere", Path("a\0b")):
        with pytest.raises(SettingsError, match=r"can't be read"):
            read(path)


ODD = st.sampled_from(
    ["!!binary x", "!!set {a}", "&a", "*a", "<<: *a", "? ", "- ", ": ", "\t", "\n---\n", "\n...\n", "{", "}", "[", "]",
     '"', "'", "|\n", ">-\n", "#", "%YAML 9.9\n", "\x00", "\ufeff", "\x85", "\u2028", '"\\x00"', '"\\UFFFFFFFF"', "~",
     "24e400", "2027-01-01T11:30:00Z", "0x", "1:30", "{secure: a}", "secure: a", "null", "[[[[[[[[[[[[[[[[[[[[[[[[",
     "\xe9"]
)  # fmt: skip


@hypothesis.settings(
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
    max_examples=EXAMPLES,
    deadline=None,
)
@hypothesis.given(st.sampled_from(sorted(STACKS.glob("Pulumi.*.yaml"))), st.data())
def test_a_spoilt_stack_file_is_read_or_refused(tmp_path: Path, file: Path, data: st.DataObject) -> None:
    """Nothing but SettingsError, whatever bytes are put into a stack file or taken out of it."""
    text = file.read_bytes()
    for _ in range(data.draw(st.integers(1, 3))):
        first = data.draw(st.integers(0, len(text)))
        last = data.draw(st.integers(first, min(len(text), first + 40)))
        put = data.draw(ODD.map(str.encode) | st.binary(max_size=4) | st.sampled_from(text.splitlines()))
        text = text[:first] + put + text[last:]
    spoilt = tmp_path / "Pulumi.test.yaml"
    spoilt.write_bytes(text)
    try:
        load_stack_file(spoilt)
    except SettingsError as error:
        for problem in error.problems:
            assert problem.path and problem.what and problem.todo
            assert "Input should" not in problem.what
