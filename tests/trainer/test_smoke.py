"""The smoke step at the end of the image's build: what it refuses, and that the Dockerfile's own steps satisfy it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.trainer.conftest import PROJECT
from trainer import smoke

DOCKERFILE = PROJECT / "trainer/Dockerfile"
VERSIONS = {"torch": "2.9.0", "torchvision": "0.24.0", "torchaudio": "2.9.0", "flash-attn": "2.8.3"}
"""What AWS' container for training with PyTorch 2.9 has in its own site-packages, among others."""
FAILS = "raise RuntimeError('operator torchvision::nms does not exist')\n"
"""What torchvision 0.24 says on importing beside a newer torch."""


def packages() -> Path:
    """The folder that the trainer's locked packages are in, laid out as in an image."""
    torch = find_spec("torch")
    assert torch is not None and torch.submodule_search_locations
    return Path(torch.submodule_search_locations[0]).parent


def fake(folder: Path, *names: str) -> Path:
    """Packages that are installed and can't be imported beside our torch."""
    for name in names:
        module = folder / name.replace("-", "_")
        module.mkdir(parents=True)
        (module / "__init__.py").write_text("" if name == "torch" else FAILS)
        about = folder / f"{module.name}-{VERSIONS[name]}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {VERSIONS[name]}\n")
    return folder


def run(python: Path, *arguments: str, path: list[Path]) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*path, PROJECT]))}
    return subprocess.run(
        [python, *arguments], env=variables, capture_output=True, text=True, timeout=600, cwd=python.parent
    )


def ask(python: Path, *front: Path) -> subprocess.CompletedProcess[str]:
    return run(python, "-m", "trainer.smoke", "--packages", str(packages()), path=[*front, packages()])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a base image that has a torch and its friends."""
    folder = tmp_path_factory.mktemp("base")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    fake(site, *VERSIONS)
    return folder / "bin/python3"


@pytest.fixture(scope="module")
def isolated(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The interpreter after the Dockerfile's own commands, run on that base."""
    folder = tmp_path_factory.mktemp("image") / "shardyard"
    folder.mkdir()
    for name in ("requirements.txt", "licences.py"):
        (folder / name).write_bytes((PROJECT / "trainer" / name).read_bytes())
    (folder / "packages-from-node").touch()  # the packages are here already
    (step,) = re.findall(r"^RUN (set -eu; .*?[^\\])$", DOCKERFILE.read_text(), re.DOTALL | re.MULTILINE)
    command = step.replace("\\\n", "").replace("/opt/shardyard", str(folder))
    variables = {**os.environ, "PATH": f"{base.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", command], env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "torchvision" in (folder / "LICENCES.txt").read_text(), "what the base brings is in the image"
    yield folder / "venv/bin/python3"


@pytest.mark.processes
def test_the_base_s_torchvision_breaks_the_import_of_the_model(base: Path) -> None:
    """The fault itself: ours is in front, and transformers finds the base's torchvision all the same."""
    done = run(base, "-c", "import transformers.models.llama.modeling_llama", path=[packages()])
    assert done.returncode != 0
    assert "operator torchvision::nms does not exist" in done.stderr


def test_packages_of_the_base_behind_ours_are_refused(base: Path) -> None:
    done = ask(base)
    assert done.returncode == 2
    for name, version in VERSIONS.items():
        assert f"{name} {version} in {base.parents[1]}" in done.stderr
    assert "transformers imports it with every model" in done.stderr
    assert "Hide them: `python3 -m venv --without-pip FOLDER`" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", VERSIONS)
def test_packages_in_front_of_ours_are_refused(isolated: Path, tmp_path: Path, name: str) -> None:
    done = ask(isolated, fake(tmp_path, name))
    assert done.returncode == 2
    assert f"{name} {VERSIONS[name]} in {tmp_path}" in done.stderr


def test_a_module_that_belongs_to_no_package_is_refused_too(isolated: Path, tmp_path: Path) -> None:
    (tmp_path / "apex").mkdir()
    (tmp_path / "apex/__init__.py").touch()
    done = ask(isolated, tmp_path)
    assert done.returncode == 2
    assert f"apex in {tmp_path} (transformers takes its norms" in done.stderr


@pytest.mark.processes
def test_after_the_dockerfile_s_steps_the_base_s_packages_are_gone_and_a_step_works(isolated: Path) -> None:
    done = ask(isolated)
    assert done.returncode == 0, done.stderr
    assert "one step of a tiny Llama, loss " in done.stdout
    gone = run(isolated, "-c", "import torchvision", path=[packages()])
    assert "No module named 'torchvision'" in gone.stderr


def test_an_image_whose_packages_the_node_mounts_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "packages-from-node"
    mark.touch()
    monkeypatch.setattr(smoke, "FROM_NODE", mark)
    assert smoke.main(["--packages", str(tmp_path)]) == 0
    assert "skipped" in (said := capsys.readouterr().out)
    assert "the node mounts the packages" in said


def test_an_image_without_packages_is_refused(isolated: Path, tmp_path: Path) -> None:
    done = run(isolated, "-m", "trainer.smoke", "--packages", str(tmp_path), path=[])
    assert done.returncode == 2
    assert "torch" in done.stderr


def test_the_build_ends_with_the_smoke_step() -> None:
    steps = [line for line in DOCKERFILE.read_text().splitlines() if line.startswith(("RUN", "COPY"))]
    assert steps[-1] == "RUN python3 -m trainer.smoke"
    assert "PATH=/opt/shardyard/venv/bin:" in DOCKERFILE.read_text()


@pytest.mark.parametrize("module", smoke.PROBED)
def test_modules_that_are_looked_for_have_a_reason_and_are_not_there_unlocked(module: str) -> None:
    assert smoke.PROBED[module]
    origin = smoke._origin(module)
    assert origin is None or origin.is_relative_to(packages().resolve())
