"""With the real buildah and the real registry: built, pushed, not repeated, nothing of the user's touched."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import bootstrap, processes, registry
from lab.images import build, storage, upload
from lab.images.recipes import BASE, IMAGES, Image
from lab.settings import LOOPBACK, Lab
from lab.toolchain.commands import Commands, StopSignal
from lab.toolchain.errors import ToolchainError
from tests.ports import free_port_base

pytestmark = pytest.mark.lab

PAUSE = next(image for image in IMAGES if image.name == "lab/pause")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab with an empty cache, but for the two programs that these tests need, and ports of its own."""
    lab = Lab("test", tmp_path / "cache", tmp_path / "state", port_base=free_port_base())
    lab.bin.mkdir(parents=True)
    real = Lab.from_environment()
    for name in ("node-plugins", "docker-registry"):
        (lab.bin / name).symlink_to((real.bin / name).resolve())
    yield lab
    registry.stop(lab)
    if (lab.bin / "buildah").exists():
        subprocess.run([lab.bin / "buildah", "rm", "--all"], capture_output=True)


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path / "log", StopSignal())


def config(lab: Lab, image: Image) -> dict[str, object]:
    done = subprocess.run(
        [storage.buildah(lab), "inspect", "--type", "image", image.local],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout)["OCIv1"]["config"])


def test_an_image_is_built_once_and_carries_what_it_was_built_from(lab: Lab, commands: Commands) -> None:
    assert build.build(lab, PAUSE, commands)
    assert not build.build(lab, PAUSE, commands), "the same again"
    found = config(lab, PAUSE)
    assert found["Entrypoint"] == ["/pause"]
    labels = found["Labels"]
    assert isinstance(labels, dict) and labels[build.LABEL] == PAUSE.inputs(lab)
    first = build.stored(lab)[PAUSE.local]

    changed = lab.bin / "changed"
    changed.write_bytes((lab.bin / "node-plugins").read_bytes() + b"\0")
    changed.replace(lab.bin / "node-plugins")
    assert build.outdated(lab, [PAUSE]) == [PAUSE]
    assert build.build(lab, PAUSE, commands)
    there = build.stored(lab)
    assert there[PAUSE.local] != first
    assert first not in there.values(), "the old one is gone"


def test_two_builds_from_the_same_inputs_are_the_same_image(lab: Lab, commands: Commands) -> None:
    build.build(lab, PAUSE, commands)
    first = build.stored(lab)[PAUSE.local]
    (lab.cache / "stamps/image-pause.json").unlink()
    assert build.build(lab, PAUSE, commands)
    assert build.stored(lab) == {PAUSE.local: first}, "made again, and still there"


def test_storage_and_configuration_are_the_cache_s_own(lab: Lab) -> None:
    storage.prepare(lab)
    done = subprocess.run(
        [storage.buildah(lab), "info"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "CONTAINERS_STORAGE_CONF": "/nowhere", "STORAGE_DRIVER": "vfs"},
    )
    store = json.loads(done.stdout)["store"]
    assert store["GraphRoot"] == str(lab.cache / "containers/storage")
    assert store["RunRoot"] == str(lab.cache / "containers/run")


def test_after_a_boot_the_mounts_of_before_are_forgotten(lab: Lab) -> None:
    storage.prepare(lab)
    mark = storage.folder(lab) / "run/mark"
    mark.parent.mkdir(exist_ok=True)
    mark.touch()
    storage.prepare(lab)
    assert mark.exists()
    (storage.folder(lab) / "boot").write_text("another boot")
    storage.prepare(lab)
    assert not mark.exists()


def test_images_reach_the_registry_once_and_again_when_it_lost_them(
    lab: Lab, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upload, "IMAGES", (BASE, PAUSE))
    with pytest.raises(ToolchainError, match="lab/pause:1 was not built"):
        upload.upload(lab)
    build.build(lab, PAUSE, commands)
    with pytest.raises(ToolchainError, match="doesn't answer"):
        upload.upload(lab)
    registry.start(lab)
    assert registry.digest(lab, "lab/pause", "1") is None
    upload.upload(lab)
    digest = registry.digest(lab, "lab/pause", "1")
    assert digest

    # What was pushed is what was built: buildah itself pulls it back.
    pulled = ["pull", "--tls-verify=false", f"docker://{lab.registry}/lab/pause@{digest}"]
    done = subprocess.run([storage.buildah(lab), *pulled], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == build.stored(lab)[PAUSE.local]

    registry.ask(lab, "DELETE", f"/v2/lab/pause/manifests/{digest}")
    assert registry.digest(lab, "lab/pause", "1") is None
    registry.stop(lab)
    before = sum(path.stat().st_size for path in registry.folder(lab).rglob("data"))
    registry.start(lab)
    after = sum(path.stat().st_size for path in registry.folder(lab).rglob("data"))
    assert before > 10_000_000 and after < 10_000, "starting it collects what no image has"
    upload.upload(lab)
    assert registry.digest(lab, "lab/pause", "1") == digest


def test_the_registry_listens_where_it_should_and_stops(lab: Lab) -> None:
    registry.start(lab)
    registry.start(lab)
    running = [process.name for process in processes.recorded(lab)]
    assert sorted(running) == sorted(registry.listeners(lab))
    with socket.socket() as probe:
        assert probe.connect_ex((LOOPBACK, lab.registry_port)) == 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", lab.registry_port))  # free: it doesn't listen on every address
    registry.stop(lab)
    assert not registry.healthy(lab) and processes.recorded(lab) == []


def test_a_taken_port_is_named(lab: Lab) -> None:
    with socket.create_server((LOOPBACK, lab.registry_port)):
        with pytest.raises(
            ToolchainError, match=rf"port {lab.registry_port} on 127.0.0.1.*SHARDYARD_PORT_BASE"
        ):
            registry.start(lab)


def test_a_registry_that_can_t_start_shows_its_log(lab: Lab) -> None:
    broken = lab.bin / "docker-registry"
    broken.unlink()
    broken.write_text("#!/bin/sh\necho no space left on device\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(ToolchainError, match=r"(?s)did not come up on 127.0.0.1.*no space left on device"):
        registry.start(lab)
    assert processes.recorded(lab) == []


def test_a_user_s_registry_variables_change_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_AUTH_FILE", "/home/somebody/auth.json")
    monkeypatch.setenv("REGISTRY_HTTP_ADDR", "127.0.0.1:1")
    registry.start(lab)
    assert registry.healthy(lab)


def test_the_base_runs_the_trainer_s_packages_as_pods_will() -> None:
    """In the real base image: Debian's Python finds the packages that lie on this machine."""
    real = Lab.from_environment()
    packages = bootstrap.trainer_folder(real, bootstrap.PROJECT, bootstrap.PODS)
    buildah = storage.buildah(real)
    begun = subprocess.run(
        [buildah, "from", "--pull=never", BASE.local], capture_output=True, text=True, check=True
    ).stdout.strip()
    code = (
        "import sys, numpy, safetensors, yaml, torch; print(sys.version_info[:2], torch.ones(3).sum().item())"
    )
    command = ["env", "PYTHONPATH=/packages", "OMP_NUM_THREADS=1", "python3", "-c", code]
    try:
        done = subprocess.run(
            [buildah, "run", "-v", f"{packages}:/packages:ro", begun, "--", *command],
            capture_output=True,
            text=True,
        )
    finally:
        subprocess.run([buildah, "rm", begun], capture_output=True)
    assert done.stdout.strip() == f"{bootstrap.PODS} 3.0", done.stderr
    assert shutil.which("buildah", path=str(real.bin))
