"""A thing counts as made only with the inputs and the files that its stamp names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.settings import Lab
from lab.toolchain import stamps


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab("test", tmp_path / "cache", tmp_path / "state")


def test_a_stamp_is_read_back_as_it_was_written(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"tool")
    stamp = stamps.Stamp("in", [stamps.Output.of(tmp_path / "tool")], "adopted", {"id": "7"})
    stamp.write(lab, "tool")
    assert stamps.read(lab, "tool") == stamp


def test_it_is_stale_once_an_input_or_a_file_changes(lab: Lab, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_bytes(b"tool")
    stamps.Stamp("in", [stamps.Output.of(tool)]).write(lab, "tool")
    assert stamps.fresh(lab, "tool", "in")
    assert not stamps.fresh(lab, "tool", "other")
    assert not stamps.fresh(lab, "never", "in")
    tool.write_bytes(b"another")
    assert not stamps.fresh(lab, "tool", "in")
    tool.unlink()
    assert not stamps.fresh(lab, "tool", "in")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"inputs": "in"}', '{"inputs": "in", "outputs": [{"path": 1}]}']
)
def test_a_damaged_stamp_is_no_stamp(lab: Lab, content: str) -> None:
    (lab.cache / "stamps").mkdir(parents=True)
    (lab.cache / "stamps" / "tool.json").write_text(content)
    assert stamps.read(lab, "tool") is None


def test_a_known_digest_is_not_computed_again(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "tool"
    tool.write_bytes(b"tool")
    stamps.Stamp("in", [stamps.Output.of(tool)]).write(lab, "tool")
    expected = stamps.file_digest(tool)
    monkeypatch.setattr(stamps, "file_digest", lambda path: f"read {path.name}")
    assert stamps.known_digest(lab, tool) == expected
    tool.write_bytes(b"longer than before")
    assert stamps.known_digest(lab, tool) == "read tool"


def test_a_folder_s_digest_sees_names_contents_and_depth(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/x").write_text("1")
    seen = {stamps.folder_digest(tmp_path)}
    (tmp_path / "a/x").write_text("2")
    seen.add(stamps.folder_digest(tmp_path))
    (tmp_path / "a/x").rename(tmp_path / "a/y")
    seen.add(stamps.folder_digest(tmp_path))
    (tmp_path / "a/y").rename(tmp_path / "y")
    seen.add(stamps.folder_digest(tmp_path))
    assert len(seen) == 4


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_different_sequences_have_different_digests(one: list[str], other: list[str]) -> None:
    assert (stamps.digest(one) == stamps.digest(other)) == (one == other)
