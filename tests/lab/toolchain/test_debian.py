"""What is read from apt and from the machine, and what is said where it can't be had."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.settings import Lab
from lab.toolchain import debian, stamps
from lab.toolchain.commands import Commands, StopSignal
from lab.toolchain.errors import ToolchainError

TARGETS = """\
Created-By: Packages
Origin: Debian
Repo-URI: http://mirror.example/debian/
Release: bookworm
Component: main
Signed-By: /keys/debian.gpg

Created-By: Packages
Origin: Debian
Repo-URI: http://mirror.example/debian/
Release: bookworm
Component: contrib
Signed-By: /keys/debian.gpg

Created-By: Translations
Origin: Debian
Repo-URI: http://mirror.example/debian/
Release: bookworm
Component: non-free

Created-By: Packages
Origin: Somebody
Repo-URI: http://other.example/apt/
Release: nodistro
Component: main
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab("test", tmp_path / "cache", tmp_path / "state")


def test_only_debian_s_own_suites_are_taken_each_once() -> None:
    (source,) = debian.parse_index_targets(TARGETS)
    assert (
        source.line()
        == "deb [signed-by=/keys/debian.gpg] http://mirror.example/debian/ bookworm main contrib"
    )


def test_a_machine_without_debian_has_none() -> None:
    assert debian.parse_index_targets("") == []


def test_os_release_values_may_be_quoted() -> None:
    text = "# a comment\nID=debian\nVERSION_ID=\"12\"\nNAME='Debian GNU/Linux'\n"
    assert debian.parse_os_release(text) == {"ID": "debian", "VERSION_ID": "12", "NAME": "Debian GNU/Linux"}


def test_missing_tools_are_named_by_package_each_once() -> None:
    tools = {"sh": "dash", "no-such-a": "package-a", "no-such-b": "package-a"}
    assert debian.missing_packages(tools, {}) == ["package-a"]
    assert "package-l" in debian.missing_packages({}, {"libnosuch.so.9": "package-l"})


def test_without_root_the_command_to_type_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(debian, "release", lambda: ("bookworm", "12"))
    with pytest.raises(ToolchainError, match="sudo apt-get install --no-install-recommends buildah iptables"):
        debian.install_tools(["buildah", "iptables"], Commands(tmp_path / "log", StopSignal()))


def test_without_apt_it_says_what_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    debian.release.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        with pytest.raises(ToolchainError, match=r"no apt-get.*Debian 12"):
            debian.release()
    finally:
        debian.release.cache_clear()


@pytest.mark.parametrize("damage", ["remove", "change"])
def test_a_damaged_unpacking_is_not_fresh(lab: Lab, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setattr(debian, "release", lambda: ("bookworm", "12"))
    assert not debian.is_fresh(lab), "nothing is there yet"
    lab.bin.mkdir(parents=True)
    programs = [lab.bin / Path(path).name for path in debian.COMMANDS]
    for program in programs:
        program.write_text("program")
    stamps.Stamp(debian.inputs(), [stamps.Output.of(one) for one in programs]).write(lab, debian.STAMP)
    assert debian.is_fresh(lab)
    if damage == "remove":
        programs[0].unlink()
    else:
        programs[0].write_text("cut off")
    assert not debian.is_fresh(lab)


@pytest.mark.lab
def test_what_was_unpacked_runs_and_none_of_it_was_installed() -> None:
    real = Lab.from_environment()
    commands = Commands(real.cache / "logs/test-debian.log", StopSignal())
    assert any("etcd Version: 3.4" in line for line in commands.run([real.bin / "etcd", "--version"]))
    assert any("version 2.42" in line for line in commands.run([real.bin / "promtool", "--version"]))
    assert any("runc version 1.1" in line for line in commands.run([real.bin / "runc", "--version"]))
    assert any("containerd" in line for line in commands.run([real.bin / "containerd", "--version"]))
    assert {"bridge", "host-local", "loopback", "portmap", "ptp"} <= {
        p.name for p in debian.cni_plugins(real).iterdir()
    }
