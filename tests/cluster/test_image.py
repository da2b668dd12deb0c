"""The trainer's image: what it is made of, when it is built, how it is pushed."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster import image_build
from cluster.image_inputs import Inputs
from cluster.registry import image_inputs, keep_newest
from cluster.settings.sections import TrainerImage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    context = tmp_path / "trainer"
    (context / "data").mkdir(parents=True)
    (context / "Dockerfile").write_text("FROM scratch\n")
    (context / "data" / "loader.py").write_text("x = 1\n")
    return tmp_path


def digest(root: Path, **arguments: str) -> str:
    return Inputs(root=root, context=Path("trainer"), arguments=arguments).digest()


def test_the_same_inputs_have_the_same_digest_whatever_their_dates(folder: Path) -> None:
    before = digest(folder, BASE="a")
    os.utime(folder / "trainer/data/loader.py", (1, 1))
    cache = folder / "trainer/__pycache__"
    cache.mkdir()
    (cache / "loader.pyc").write_bytes(b"x")
    assert digest(folder, BASE="a") == before


def test_every_change_that_matters_changes_the_digest(folder: Path) -> None:
    seen = {digest(folder, BASE="a"), digest(folder, BASE="b"), digest(folder, BASE="a", EXTRA="node")}
    loader = folder / "trainer/data/loader.py"
    loader.write_text("x = 2\n")
    seen.add(digest(folder, BASE="a"))
    loader.chmod(loader.stat().st_mode | stat.S_IXUSR)
    seen.add(digest(folder, BASE="a"))
    loader.rename(folder / "trainer/data/reader.py")
    seen.add(digest(folder, BASE="a"))
    assert len(seen) == 6


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(st.dictionaries(st.from_regex(r"[A-Z]{1,3}", fullmatch=True), st.text("ab=", max_size=3), max_size=3))
def test_arguments_can_not_be_confused(folder: Path, arguments: dict[str, str]) -> None:
    shifted = {f"{key}A": value for key, value in arguments.items()}
    assert (digest(folder, **arguments) == digest(folder, **shifted)) == (not arguments)


def test_a_missing_dockerfile_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="trainer/Dockerfile is missing"):
        digest(tmp_path)


def test_the_repository_s_own_image_has_a_digest() -> None:
    inputs = image_inputs(TrainerImage(base="localhost/base:1"))
    files = list(inputs.files())
    assert Path("trainer/Dockerfile") in files
    assert all(file.is_relative_to("trainer") for file in files)
    assert len(inputs.digest()) == 64


class Recorder:
    """In place of the programs and of ECR: remembers commands, writes the digest that a push would."""

    def __init__(self, known: dict[str, str] | None = None) -> None:
        self.commands: list[list[str]] = []
        self.known = known or {}

    def run(self, command: list[str], environment: Any, text: str | None = None) -> str:
        self.commands.append(command)
        if "--digestfile" in command:
            Path(command[command.index("--digestfile") + 1]).write_text("sha256:new\n")
        return ""


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()
    monkeypatch.setattr(image_build, "_run", recorder.run)
    monkeypatch.setattr(image_build, "which", lambda name: f"/usr/bin/{name}" if name == "buildah" else None)
    monkeypatch.setattr(
        image_build, "find", lambda props: recorder.known.get(image_build.tag(props["inputs"]))
    )
    return recorder


def properties(repository: str = "localhost:5000/s/trainer") -> dict[str, Any]:
    arguments = {"BASE": "b", "A": "1"}
    return {
        "repository": repository,
        "region": "us-east-1",
        "context": "trainer",
        "arguments": arguments,
        "inputs": "d" * 64,
    }


def test_building_gives_the_reference_by_digest(recorder: Recorder) -> None:
    made = image_build._Provider().create(properties())
    assert made.outs is not None
    assert made.outs["reference"] == "localhost:5000/s/trainer@sha256:new"
    build, push = recorder.commands
    assert build[:2] == ["buildah", "build"]
    assert build[-1] == "trainer"
    assert [one for one in build if one.startswith("--build-arg")] == [
        "--build-arg=A=1",
        "--build-arg=BASE=b",
    ]
    assert "--tls-verify=false" in push


def test_an_image_that_is_there_is_not_built_again(recorder: Recorder) -> None:
    recorder.known = {image_build.tag("d" * 64): "sha256:old"}
    made = image_build._Provider().create(properties())
    assert made.outs is not None
    assert made.outs["reference"] == "localhost:5000/s/trainer@sha256:old"
    assert recorder.commands == []


def test_a_registry_elsewhere_is_logged_in_to_and_never_spoken_to_in_the_clear(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ecr:
        def get_authorization_token(self) -> dict[str, Any]:
            return {"authorizationData": [{"authorizationToken": "QVdTOnNlY3JldA=="}]}

    monkeypatch.setattr(image_build, "_ecr", lambda region: Ecr())
    host = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
    made = image_build._Provider().create(properties(f"{host}/s/trainer"))
    _, login, push = recorder.commands
    assert login == ["buildah", "login", "--username", "AWS", "--password-stdin", host]
    assert "--tls-verify=false" not in push
    assert "secret" not in str(made.outs) + str(recorder.commands)


def test_a_failed_build_says_how_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(image_build.BuildFailed, match="the last words"):
        image_build._run(["sh", "-c", "echo the last words; exit 3"], os.environ)


def test_a_machine_that_can_not_build_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_build, "which", lambda name: None)
    with pytest.raises(image_build.BuildFailed, match="install buildah"):
        image_build.build(properties())


def test_only_other_inputs_are_another_image() -> None:
    provider = image_build._Provider()
    old = {**properties(), "reference": "x@sha256:old"}
    assert not provider.diff("id", old, properties()).changes
    # The builder's own arguments are part of the digest; the region says nothing about the image.
    assert not provider.diff("id", old, {**properties(), "region": "us-west-2"}).changes
    changed = provider.diff("id", old, {**properties(), "inputs": "e" * 64})
    assert changed.changes
    assert changed.replaces == ["inputs"]


def test_repositories_keep_the_newest() -> None:
    assert '"countNumber": 7' in keep_newest(7)
