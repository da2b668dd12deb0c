"""What clusters and nodes use of the machine: names, addresses, ports, control groups, files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import processes
from lab.nodes import cleanup, programs
from lab.nodes.cluster_files import ClusterFiles
from lab.nodes.node import bridge, cgroups
from lab.nodes.node.devices import PYTHON_IN_POD, devices
from lab.nodes.node.init import check_folders
from lab.settings import Lab
from tests.lab.nodes.support import GPU, P5, spec
from tests.waiting import eventually

LAB = Lab("test", Path("/cache"), Path("/state"))


def test_no_clusters_processes_are_anothers() -> None:
    """Names are joined by a character that EKS allows in no cluster name."""
    a, b = (ClusterFiles(LAB, name, 0, LAB.gateway) for name in ("main", "main-2"))
    assert not b.process("etcd").startswith(a.process(""))


def test_ports_are_the_slots_own() -> None:
    names = ("api", "etcd", "etcd-peer", "controller-manager", "scheduler")
    ports = {ClusterFiles(LAB, "main", slot, LAB.gateway).port(name) for slot in (0, 1) for name in names}
    assert len(ports) == 10


def test_every_node_has_addresses_of_its_own() -> None:
    numbers = range(1, bridge.MAX_NODES)
    addresses = {bridge.node_address(LAB, n) for n in numbers}
    assert len(addresses) == len(numbers)
    assert all(a in LAB.network and a != LAB.gateway for a in addresses)
    assert len({bridge.pod_subnet(LAB, n) for n in numbers}) == len(numbers)
    assert all(len(bridge.link_name(n)) <= 15 for n in numbers), "the kernel's limit (IFNAMSIZ)"


def test_a_gpu_brings_the_trainers_packages_with_it(tmp_path: Path) -> None:
    offers = devices(tmp_path, spec(1, devices=P5))
    mount = {"host": str(tmp_path), "container": PYTHON_IN_POD}
    assert offers[GPU] == {"count": 8, "mounts": [mount], "env": {}}
    assert offers["vpc.amazonaws.com/efa"] == {"count": 32, "mounts": [], "env": {}}
    assert devices(tmp_path, spec(1)) == {}
    assert devices(tmp_path / "absent", spec(1, devices=P5))[GPU]["mounts"] == []


@pytest.mark.parametrize("hidden", ["/run/lab", "/var/lib/shardyard", "/var/log/x"])
def test_folders_that_nodes_could_not_see_are_refused(hidden: str) -> None:
    with pytest.raises(RuntimeError, match="move it"):
        check_folders(Lab("test", Path("/root/cache"), Path(hidden)))
    check_folders(LAB)


def test_without_root_there_are_no_real_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "root" in (programs.why_no_real_nodes(LAB) or "")


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="kubelet is neither in /cache/bin"):
        programs.find(LAB, "kubelet")


def test_no_proxy_gets_in_between(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    lab = Lab("test", tmp_path / "cache", tmp_path / "state")
    program = programs.spawn(lab, "one", ["sh", "-c", "env > env; sleep 60"], tmp_path)
    try:
        eventually(lambda: (tmp_path / "env").exists() and "HOME=" in (tmp_path / "env").read_text(), 60)
        found = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
        assert found["HTTPS_PROXY"] == found["http_proxy"] == ""
        assert found[programs.OWNER] == str(lab.state)
    finally:
        processes.stop(program, grace=1)


@pytest.fixture
def hierarchies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    for name in ("memory", "cpu"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_groups_are_made_in_every_v1_hierarchy_and_removed(hierarchies: Path) -> None:
    path = cgroups.create(LAB, "node-1").lstrip("/")
    assert (hierarchies / "memory" / path).is_dir()
    assert (hierarchies / "cpu" / path).is_dir()
    (hierarchies / "cpu" / path / "kubepods/pod1/container").mkdir(parents=True)
    other = cgroups.create(Lab("test", Path("/cache"), Path("/other")), "node-1").lstrip("/")

    cgroups.remove(LAB)

    assert cgroups.existing(LAB) == []
    assert (hierarchies / "cpu" / other).is_dir(), "another lab's"


def test_v2_hands_its_controllers_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "ROOT", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    path = tmp_path / cgroups.create(LAB, "node-1").lstrip("/")
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (path.parent / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_nothing_is_left_of_a_lab_that_never_was(tmp_path: Path) -> None:
    lab = Lab("never", tmp_path, tmp_path / "state")
    assert cleanup.leftovers(lab) == []
    cleanup.remove_leftovers(lab)
    assert not lab.state.exists()
