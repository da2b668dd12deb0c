"""A program is built once, again when its module changes, and not at all where PATH has it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.settings import Lab
from lab.toolchain import build, go, stamps
from lab.toolchain.commands import Commands, StopSignal
from lab.toolchain.errors import ToolchainError
from lab.toolchain.programs import Program

MAIN = """\
package main

import "os"

var version = "unset"

func main() { os.Stdout.WriteString(os.Args[0] + " " + version + "\\n") }
"""


@dataclass(frozen=True)
class Hello(Program):
    """A program whose module lies in a test's folder."""

    where: Path = Path()

    @property
    def folder(self) -> Path:
        return self.where


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab("test", tmp_path / "cache", tmp_path / "state")


@pytest.fixture
def hello(tmp_path: Path) -> Hello:
    folder = tmp_path / "hello"
    folder.mkdir()
    (folder / "go.mod").write_text("module shardyard.dev/hello\n\ngo 1.21\n")
    (folder / "go.sum").write_text("")
    (folder / "main.go").write_text(MAIN)
    return Hello(
        "hello",
        package=".",
        output="hello",
        cpu_seconds=10,
        aliases=("greet", "wave"),
        versions={"greet": ("--version",), "wave": ("--version",)},
        version="v1.2.3",
        ldflags=("-s", "-X main.version=v1.2.3"),
        where=folder,
    )


def on_path(folder: Path, name: str, says: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho '{says}'\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("v1.34.4", True),
        ("Kubernetes v1.34.4\n", True),
        ('gitVersion:"v1.34.4", gitCommit', True),
        ("v1.34.40", False),
        ("v1.34.4-rc.1", False),
        ("v1.34.4+k3s1", False),
        ("rev1.34.4", False),
        ("v1.34.3", False),
    ],
)
def test_a_version_must_be_named_exactly(text: str, found: bool) -> None:
    assert build.names_version(text, "v1.34.4") is found


def test_all_commands_on_path_in_the_right_version_spare_the_build(
    lab: Lab, hello: Hello, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:{os.environ['PATH']}")
    on_path(tmp_path / "path", "greet", "greet v1.2.3")
    assert not build.take_from_path(lab, hello), "one of two is not enough"
    on_path(tmp_path / "path", "wave", "wave v1.2.4")
    assert not build.take_from_path(lab, hello), "another version will not do"
    on_path(tmp_path / "path", "wave", "wave v1.2.3")
    assert build.take_from_path(lab, hello)
    assert build.is_fresh(lab, hello)
    assert (lab.bin / "wave").readlink() == tmp_path / "path/wave"
    on_path(tmp_path / "path", "wave", "wave v9, upgraded meanwhile")
    assert not build.is_fresh(lab, hello)


def test_the_lab_s_own_folder_on_path_is_not_somebody_else_s(
    lab: Lab, hello: Hello, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.bin.mkdir(parents=True)
    for name in hello.aliases:
        on_path(lab.bin, name, f"{name} v1.2.3")
    monkeypatch.setenv("PATH", f"{lab.bin}:{os.environ['PATH']}")
    assert not build.take_from_path(lab, hello)


def test_flags_and_files_of_the_module_are_inputs(hello: Hello) -> None:
    before = build.inputs(hello)
    assert build.inputs(Hello(**{**vars(hello), "ldflags": ("-s",)})) != before
    assert build.inputs(Hello(**{**vars(hello), "gcflags": "all=-N"})) != before
    (hello.folder / "main.go").write_text(MAIN + "\n// changed\n")
    assert build.inputs(hello) != before


@pytest.mark.lab
def test_a_build_ends_in_working_commands_and_is_not_repeated(lab: Lab, hello: Hello, tmp_path: Path) -> None:
    tool = go.find(Lab.from_environment())
    assert tool, "no Go"
    commands = Commands(tmp_path / "log", StopSignal())
    counted: list[tuple[int, int]] = []

    fetched = build.fetch(lab, hello, tool, commands)
    build.build(lab, hello, tool, fetched, commands, lambda done, total: counted.append((done, total)))

    for name in hello.aliases:
        said = subprocess.run([lab.bin / name], capture_output=True, text=True, check=True).stdout.split()
        assert said == [str(lab.bin / name), "v1.2.3"]
    assert counted == [(1, 1)] and fetched.packages == {"shardyard.dev/hello"}
    assert build.is_fresh(lab, hello)
    assert not (lab.cache / "tmp/hello").exists()

    # Killed after the binary was in place and before its stamp was: it is recognised, not built again.
    (lab.cache / "stamps/hello.json").unlink()
    assert not build.is_fresh(lab, hello)
    assert not build.adopt(lab, hello, tool), "nothing says what it was linked from"
    (hello.folder / "main.go").write_text(MAIN.replace("unset", "other"))
    assert not build.adopt(lab, hello, tool), "its source is newer"

    # A source that doesn't compile leaves the working program in place, and says why.
    build.build(lab, hello, tool, fetched, commands, lambda done, total: None)
    stamp = stamps.read(lab, "hello")
    (hello.folder / "main.go").write_text("package main\n\nfunc main() { undefined() }\n")
    with pytest.raises(ToolchainError, match=r"(?s)undefined: undefined.*The whole log"):
        build.build(lab, hello, tool, fetched, commands, lambda done, total: None)
    assert stamps.read(lab, "hello") == stamp and shutil.which("greet", path=str(lab.bin))
    assert not build.is_fresh(lab, hello)


@pytest.mark.lab
def test_a_binary_without_a_stamp_is_adopted_by_the_modules_it_was_linked_from(tmp_path: Path) -> None:
    """With the real language host: a copy of it in an empty cache, where no stamp says where it is from."""
    from lab.toolchain.programs import programs

    real = Lab.from_environment()
    tool = go.find(real)
    assert tool, "no Go"
    program = next(each for each in programs() if each.name == "language-python")
    lab = Lab("test", tmp_path / "cache", tmp_path / "state")
    lab.bin.mkdir(parents=True)
    for name in program.names:
        shutil.copy2((real.bin / name).resolve(), lab.bin / name)
    assert not build.is_fresh(lab, program)
    os.utime(lab.bin / program.output)
    assert build.adopt(lab, program, tool) and build.is_fresh(lab, program)

    shutil.copy2((real.bin / "kwok").resolve(), lab.bin / program.output)
    os.utime(lab.bin / program.output)
    assert not build.adopt(lab, program, tool), "another program under its name"
