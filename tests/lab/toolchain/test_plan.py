"""The plan holds what is missing and nothing else, and refuses a disk that is too small."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lab import bootstrap
from lab.settings import Lab
from lab.toolchain import build, debian, disk, go, plan
from lab.toolchain.errors import ToolchainError
from lab.toolchain.schedule import Schedule, Timing


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A machine that has nothing yet, not even Go or buildah."""
    monkeypatch.setattr(build, "take_from_path", lambda lab, program: False)
    monkeypatch.setattr(go, "find", lambda lab: None)
    monkeypatch.setattr(debian, "missing_packages", lambda: ["buildah", "mmdebstrap"])
    monkeypatch.setattr(debian, "is_fresh", lambda lab: False)
    return Lab("test", tmp_path / "cache", tmp_path / "state")


def test_a_bare_machine_gets_everything_in_an_order_that_works(bare: Lab) -> None:
    steps = {step.name: step for step in plan.Plan(bare).steps()}
    assert {"go", "trainer", "tools", "debian", "image:base", "build:kubernetes"} <= steps.keys()
    assert steps["fetch:kwok"].needs == {"go"} and steps["build:kwok"].needs == {"fetch:kwok"}
    assert steps["image:coredns"].needs == {"tools", "build:coredns"}
    assert steps["image:prometheus"].needs == {"debian", "image:base"}
    Schedule(
        list(steps.values()), plan.lanes(), bare.logs, plan.Progress(plan.Console(), [])
    )  # would refuse a cycle


def test_the_longest_build_starts_first(bare: Lab) -> None:
    weights = [step.weight for step in plan.Plan(bare).steps() if step.lane == "go"]
    assert weights == sorted(weights, reverse=True)


def test_a_trainer_that_is_there_is_not_installed_again(bare: Lab) -> None:
    for folder in bootstrap.trainer_folders(bare, bootstrap.PROJECT).values():
        folder.mkdir(parents=True)
    assert "trainer" not in {step.name for step in plan.Plan(bare).steps()}


def test_a_small_disk_is_refused_with_what_is_needed(bare: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "free_gigabytes", lambda folder: 9.0)
    with pytest.raises(
        ToolchainError,
        match=r"needs 2\d GB .*\(20 of them only meanwhile\).* 9\.0 GB are free.*SHARDYARD_CACHE",
    ):
        plan.ensure(bare, plan.Console(quiet=True))
    assert not (bare.cache / "bin").exists()


def test_free_space_is_asked_of_a_folder_that_is_yet_to_be_made(tmp_path: Path) -> None:
    assert disk.free_gigabytes(tmp_path / "a/b/c") == pytest.approx(
        shutil.disk_usage(tmp_path).free / 1e9, abs=0.5
    )


def test_timings_of_earlier_runs_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "timings.json"
    plan.record(path, {"a": Timing(0, 5, 4), "b": Timing(0, 2, 1)})
    plan.record(path, {"a": Timing(1, 6, 5)})
    content = json.loads(path.read_text())
    assert content["a"] == {"began": 1, "seconds": 6, "cpu_seconds": 5} and content["b"]["seconds"] == 2
    path.write_text("{ damaged")
    plan.record(path, {"a": Timing(1, 6, 5)})
    assert json.loads(path.read_text()).keys() == {"a"}


def test_two_builds_are_at_work_only_where_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": int(3e9 / 4096)}
    monkeypatch.setattr(plan.os, "sysconf", pages.__getitem__)
    assert plan.lanes()["go"] == 1
    pages["SC_AVPHYS_PAGES"] = int(20e9 / 4096)
    assert plan.lanes()["go"] == 2


@pytest.mark.lab
def test_where_everything_is_there_nothing_is_planned() -> None:
    assert [step.name for step in plan.Plan(Lab.from_environment()).steps()] == []
