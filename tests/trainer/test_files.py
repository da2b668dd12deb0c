"""Files that several processes write at once, none of which knows of the others."""

from __future__ import annotations

import os
from pathlib import Path

from tests.trainer.crowd import crowd
from trainer.files import create_atomically, remove_leftovers, write_atomically

MANY = 8
SIZE = 1 << 18


def write_often(number: int, path: Path) -> None:
    for _ in range(50):
        write_atomically(path, bytes([number]) * SIZE, durable=False)
        whole(path.read_bytes())


def whole(content: bytes) -> None:
    assert len(content) == SIZE
    assert content == content[:1] * SIZE


def test_writers_of_one_file_with_equal_process_numbers_do_not_meet(tmp_path: Path) -> None:
    crowd(MANY, write_often, tmp_path / "file")
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
    whole((tmp_path / "file").read_bytes())


def create_many(number: int, folder: Path) -> list[tuple[bool, bytes]]:
    names = [folder / f"{name}" for name in range(30)]
    return [(create_atomically(path, bytes([number]) * SIZE), path.read_bytes()) for path in names]


def test_of_all_who_create_a_file_one_succeeds_and_all_read_its(tmp_path: Path) -> None:
    for tries in zip(*crowd(MANY, create_many, tmp_path), strict=True):
        (winner,) = [number for number, (won, _) in enumerate(tries) if won]
        assert {content for _, content in tries} == {bytes([winner]) * SIZE}
    assert len(list(tmp_path.iterdir())) == 30


def test_only_what_nobody_writes_any_more_is_left_over(tmp_path: Path) -> None:
    old, new = (".1.block.a1.tmp", ".tmpxy.tmp", "1.block", "1.tmp"), (".2.block.b2.tmp", "2.block")
    for name in (*old, *new):
        (tmp_path / name).touch()
    for name in old:
        os.utime(tmp_path / name, (0, 0))
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"1.block", "1.tmp", *new}
