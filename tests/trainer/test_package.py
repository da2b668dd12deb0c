"""The trainer as a package, away from the repository; licences of what is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.trainer.conftest import PROJECT
from trainer import licences

TRAINER = PROJECT / "trainer"
CACHES = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")


def test_every_folder_is_packaged() -> None:
    listed = tomllib.loads((TRAINER / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(PROJECT) for path in TRAINER.rglob("*.py")}
    assert sorted(listed) == sorted(".".join(folder.parts) for folder in folders)


def test_an_installed_trainer_runs_without_the_repository(tmp_path: Path) -> None:
    """Built into a wheel, unpacked beside nothing of ours, asked for help and for a wrong job file."""
    source, place = tmp_path / "source", tmp_path / "place"
    shutil.copytree(TRAINER, source, ignore=CACHES)
    torch = find_spec("torch")
    assert torch is not None and torch.submodule_search_locations
    packages = str(
        Path(torch.submodule_search_locations[0]).parent
    )  # torch brings a setuptools that makes wheels
    script = "from setuptools import build_meta; print(build_meta.build_wheel('..'))"
    built = subprocess.run(
        [sys.executable, "-c", script], cwd=source, env={**os.environ, "PYTHONPATH": packages},
        text=True, capture_output=True,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr[-2000:]
    with zipfile.ZipFile(tmp_path / built.stdout.splitlines()[-1]) as wheel:
        wheel.extractall(place)
        (about,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        needed = wheel.read(about).decode()
    modules = {path.relative_to(TRAINER) for path in TRAINER.rglob("*.py")}
    assert {path.relative_to(place / "trainer") for path in (place / "trainer").rglob("*.py")} == modules
    assert (place / "trainer" / "requirements.txt").read_text() == (TRAINER / "requirements.txt").read_text()
    for line in (TRAINER / "requirements.in").read_text().splitlines():
        assert line.startswith("#") or f"Requires-Dist: {line.partition('[')[0]}" in needed

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *arguments], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(place)},
            text=True, capture_output=True,
        )  # fmt: skip

    assert "--config" in run("trainer", "--help").stdout
    assert "examples:" in run("trainer.memory", "--help").stdout
    wrong = run("trainer", "--config", "nowhere.yaml")
    assert wrong.returncode == 2
    assert "cannot be read" in wrong.stderr


def test_licences_of_what_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert licences.main([]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert "Apache" in lines["transformers"]
    assert "BSD" in lines["torch"]
    assert "LICENSE" in lines["safetensors"] or "licenses/" in lines["safetensors"]


def test_licences_of_debian_packages(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(
        "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n"
    )
    assert licences.debian_packages(status) == [
        ("libc6", "2.36-9", "see its file", ["/usr/share/doc/libc6/copyright"])
    ]
    assert licences.debian_packages(tmp_path / "none") == []
