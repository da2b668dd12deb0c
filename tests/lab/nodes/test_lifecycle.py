"""Nothing is left of clusters and nodes, whether they are deleted or killed."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from lab import processes
from lab.nodes import cleanup
from lab.nodes.api import ClusterSpec
from lab.nodes.node import bridge, cgroups
from lab.nodes.runtime import KubernetesRuntime
from lab.settings import Lab
from tests.lab.nodes.conftest import SYSTEM
from tests.lab.nodes.support import World, pod, spec
from tests.ports import free_port_base
from tests.waiting import eventually

pytestmark = pytest.mark.lab


def test_a_node_is_drained_and_leaves_nothing(world: World) -> None:
    node = spec(20, real=True)
    world.runtime.add_nodes("main", [node])
    real = world.runtime._clusters["main"]._real[node.name]
    stops = ("sh", "-c", "trap 'echo bye; exit' TERM; while :; do sleep 0.1; done")
    world.apply(pod(world, "polite", node.name, stops, terminationGracePeriodSeconds=20))
    eventually(lambda: world.pod_phase("polite") == "Running", 300)  # a new node unpacks the image first
    group = cgroups.existing(world.lab, node.name)
    assert group

    world.runtime.remove_nodes("main", [node.name])

    assert world.client.find(f"/api/v1/nodes/{node.name}") is None
    assert world.client.find("/api/v1/namespaces/default/pods/polite") is None
    assert not cgroups.existing(world.lab, node.name)
    assert not real.files.folder.exists()
    assert not Path(f"/sys/class/net/{bridge.link_name(real.number)}").exists()
    assert not [p for p in processes.recorded(world.lab) if node.name in p.name]
    world.runtime.remove_nodes("main", [node.name])  # once more is no error


@pytest.mark.parametrize("program", ["kubelet", "containerd", "kube-proxy"])
def test_a_program_that_crashes_is_started_again(world: World, program: str) -> None:
    """As systemd does it; the pods go on."""

    def running() -> set[int]:
        """Process ids of the program in the system node, by its command line."""
        lines = {int(process.name): _command_line(process) for process in Path("/proc").glob("[0-9]*")}
        folder = f"/nodes/{SYSTEM.name}/"
        return {
            pid
            for pid, line in lines.items()
            if line.split(" ")[0].endswith(f"/{program}") and folder in line
        }

    (before,) = running()
    os.kill(before, signal.SIGKILL)
    eventually(lambda: running() - {before})
    world.apply(pod(world, f"after-{program}", SYSTEM.name))
    eventually(lambda: world.pod_phase(f"after-{program}") == "Running")


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def test_a_node_that_died_can_be_removed(world: World) -> None:
    node = spec(21, real=True)
    world.runtime.add_nodes("main", [node])
    init = processes.find(world.lab, f"cluster.main.node.{node.name}.init")
    assert init
    os.kill(init.pid, signal.SIGKILL)
    eventually(lambda: not processes.find(world.lab, f"cluster.main.node.{node.name}.kubelet"))
    world.runtime.remove_nodes("main", [node.name])
    assert processes.find(world.lab, f"cluster.main.node.{SYSTEM.name}.kubelet")


def test_two_clusters_side_by_side(world: World) -> None:
    second = world.runtime.create_cluster(ClusterSpec("second", "1.34", "arn"))
    assert second.url != world.client.url
    world.runtime.delete_cluster("second")
    world.runtime.delete_cluster("second")
    assert not (world.lab.state / "clusters/second").exists()
    assert not [p for p in processes.recorded(world.lab) if p.name.startswith("cluster.second.")]
    assert bridge.read_alias(world.lab) == bridge.owner(world.lab), "the other cluster still needs it"


def test_cleanup_after_a_crash(world: World, tmp_path: Path) -> None:
    """What another lab's killed emulator left is removed; a running lab isn't touched."""
    lab = Lab("crashed", world.lab.cache, tmp_path / "state", free_port_base())
    crashed = KubernetesRuntime(lab, "http://127.0.0.1:9/")
    crashed.no_real_nodes = "the bridge is the other lab's"
    crashed.create_cluster(ClusterSpec("lost", "1.34", "arn"))
    crashed.add_nodes("lost", [spec(1)])
    for record in lab.run.glob("*.etcd.json"):
        record.unlink()  # killed between starting a process and writing it down
    assert any("etcd" not in line for line in cleanup.leftovers(lab))

    cleanup.remove_leftovers(lab)

    assert cleanup.leftovers(lab) == []
    crashed.shutdown()  # an emulator that outlives its clusters stops without an error
    assert processes.find(world.lab, "cluster.main.api")
    assert bridge.read_alias(world.lab) == bridge.owner(world.lab)
    shutil.rmtree(lab.state)
