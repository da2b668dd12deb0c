"""The two halves of the long tests: each is told of, and either can fail the whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.side_by_side import HALVES

PROJECT = Path(__file__).resolve().parents[1]
TESTS = """
import pytest

@pytest.mark.lab
def test_lab(): assert {lab}

@pytest.mark.processes
def test_processes(): assert {trainer}

@pytest.mark.lab
@pytest.mark.processes
def test_both(): pass

@pytest.mark.lab
@pytest.mark.soak
def test_soak(): assert False

def test_fast(): assert False
"""


@pytest.mark.processes
@pytest.mark.parametrize("failing", [None, *HALVES])
def test_either_half_can_fail_the_whole(failing: str | None, tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(TESTS.format(**{name: name != failing for name in HALVES}))
    done = subprocess.run(
        [sys.executable, "-m", "tests.side_by_side", "-p", "no:cacheprovider", str(file)],
        cwd=PROJECT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == (0 if failing is None else 1), done.stdout
    for name, count in (("lab", 2), ("trainer", 1)):
        (end,) = [
            line for line in done.stdout.splitlines() if line.startswith(f"{name:<7} | =") and " in " in line
        ]
        assert (f"{count} passed" in end) == (name != failing)
        assert (f"{name}:" in done.stdout.splitlines()) and done.stderr == ""
    assert ("FAILED" in done.stdout.rpartition("lab:")[2]) == (failing is not None)
