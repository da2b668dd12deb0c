from __future__ import annotations

from pathlib import Path

import pytest

from trainer import exits, versions


def test_what_is_installed_here_is_what_is_locked() -> None:
    assert versions.differences() == []


def test_a_difference_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.txt"
    lock.write_text("numpy==0.1 \\\n    --hash=sha256:00\nunknown==1\n")
    (line,) = versions.differences(lock)
    assert line.startswith("numpy is ")
    assert line.endswith("the lock file says 0.1")


def test_an_old_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "installed", lambda: {"torch": "2.8.1+cu128"})
    with pytest.raises(exits.Failure, match=r"torch 2\.8\.1\+cu128 is too old: 2\.9") as caught:
        versions.differences()
    assert caught.value.status == exits.CONFIG


def test_libraries_below_python(tmp_path: Path) -> None:
    efa = tmp_path / "efa_installed_packages"
    efa.write_text("# EFA installer version: 1.30.0\n# Packages installed:\nlibfabric-aws_1.19.0\n")
    found = versions.native("1.19.0", "2.1", efa=efa)
    assert found.items() >= {"EFA installer": "1.30.0", "aws-ofi-nccl": "1.19.0", "libfabric": "2.1"}.items()
    assert versions.unlike(found, versions.pins()) == ["EFA installer is 1.30.0, pinned is 1.48.0"]
    assert "EFA installer" not in versions.native("1.7.4", efa=tmp_path / "none")
    found = {"CUDA": "13.2", "NCCL": "2.27.5", "EFA installer": "1.48.0"}
    pinned = {"CUDA": "13.2.2", "NCCL": "2.30.7", "EFA installer": "1.48.0"}
    assert versions.unlike(found, pinned) == ["NCCL is 2.27.5, pinned is 2.30.7"]
    assert versions.unlike({"CUDA": "12.8"}, pinned) == ["CUDA is 12.8, pinned is 13.2.2"]


def test_libraries_that_are_too_old() -> None:
    assert versions.too_old({"aws-ofi-nccl": "1.7.4", "libfabric": "2.1", "EFA installer": "1.30.0"}) == []
    assert versions.too_old({"aws-ofi-nccl": "1.6.0", "libfabric": "1.9"}) == [
        "aws-ofi-nccl is 1.6.0, older than 1.7: the settings that it needs are not set",
        "libfabric is 1.9, older than 1.18: the settings that it needs are not set",
    ]


@pytest.mark.parametrize("name", ["aws-ofi-nccl", "libfabric", "EFA installer", "NCCL", "CUDA"])
def test_nodes_that_differ_from_each_other(name: str) -> None:
    one, other = {name: "1.2", "same": "3"}, {name: "1.4", "same": "3"}
    assert versions.odd_ones([]) == versions.odd_ones([one]) == versions.odd_ones([one, one]) == {}
    assert versions.odd_ones([one, other, one]) == {1: [f"{name} is 1.4, on other nodes 1.2"]}
    assert versions.odd_ones([one, one, {"same": "3"}]) == {2: [f"{name} is missing, on other nodes 1.2"]}
    assert versions.odd_ones([one, other]) == {
        0: [f"{name} is 1.2, on other nodes 1.4"],
        1: [f"{name} is 1.4, on other nodes 1.2"],
    }
