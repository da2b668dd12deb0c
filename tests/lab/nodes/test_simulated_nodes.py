"""Nodes that kwok simulates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.nodes.api import Taint
from lab.nodes.client.drain import drain
from tests.lab.nodes.conftest import SIMULATED
from tests.lab.nodes.support import EFA, GPU, GPU_TAINT, P5, World, plugin, pod, spec
from tests.waiting import eventually

pytestmark = pytest.mark.lab


def test_capacity_is_the_types(world: World) -> None:
    found = world.allocatable(SIMULATED.name)
    assert (found["cpu"], found["memory"]) == ("191450m", "2052371068Ki")


def test_devices_appear_and_go_with_the_plugin(world: World) -> None:
    world.apply(plugin(world, "nvidia-device-plugin-fleet", "lab/nvidia-device-plugin:1", "fleet"))
    world.apply(plugin(world, "aws-efa-k8s-device-plugin-fleet", "lab/efa-device-plugin:1", "fleet"))
    eventually(lambda: world.allocatable(SIMULATED.name).get(GPU) == "8")
    eventually(lambda: world.allocatable(SIMULATED.name).get(EFA) == "32")
    world.apply(
        pod(world, "fleet", SIMULATED.name, container={"resources": {"limits": {GPU: "8", EFA: "32"}}})
    )
    eventually(lambda: world.pod_phase("fleet") == "Running")
    assert "MethodNotAllowed" in world.kubectl("logs", "fleet", check=False), "kwok is asked, not the address"
    world.kubectl("delete", "daemonset", "nvidia-device-plugin-fleet", "-n", "kube-system")
    eventually(lambda: world.allocatable(SIMULATED.name).get(GPU) == "0")


def test_disruption_budgets_are_honoured_for_a_while(world: World) -> None:
    node = spec(30, nodegroup="budgeted")
    world.runtime.add_nodes("main", [node])
    guarded = pod(world, "guarded", node.name)
    budget = {"selector": {"matchLabels": {"app": "guarded"}}, "minAvailable": 1}
    world.apply(
        guarded,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "guard"},
            "spec": budget,
        },
    )
    eventually(lambda: world.pod_phase("guarded") == "Running")
    status = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/guard"
    eventually(lambda: world.client.get(status)["status"].get("currentHealthy") == 1)

    drain(world.client, [node.name], wait=2)
    assert world.pod_phase("guarded") == "Running"
    assert world.client.get(f"/api/v1/nodes/{node.name}")["spec"]["unschedulable"]

    world.kubectl("delete", "pdb", "guard")
    drain(world.client, [node.name], wait=10)
    assert world.client.find("/api/v1/namespaces/default/pods/guarded") is None
    world.runtime.remove_nodes("main", [node.name])


def test_changed_labels_and_taints_reach_a_node_that_runs(world: World) -> None:
    """A group's changes, as EKS makes them; what others put on the node stays."""
    old = spec(31, nodegroup="changing", labels={"kept": "1", "gone": "1"}, taints=[GPU_TAINT])
    world.runtime.add_nodes("main", [old])
    world.kubectl("label", "node", old.name, "by-hand=yes")
    world.kubectl("taint", "node", old.name, "by-hand=yes:NoSchedule")
    new = replace(
        old, labels={"kept": "2", "come": "1"}, taints=[Taint("maintenance", "soon", "PreferNoSchedule")]
    )
    world.runtime.add_nodes("main", [new])

    def node() -> dict[str, Any]:
        return world.client.get(f"/api/v1/nodes/{old.name}")

    labels = node()["metadata"]["labels"]
    found = {key: labels.get(key) for key in ("kept", "come", "gone", "by-hand")}
    assert found == {"kept": "2", "come": "1", "gone": None, "by-hand": "yes"}
    # The node controller removes its own taint of a new node a moment later.
    eventually(lambda: {taint["key"] for taint in node()["spec"]["taints"]} == {"maintenance", "by-hand"})
    world.runtime.remove_nodes("main", [old.name])


@pytest.mark.parametrize("size", [100, pytest.param(1000, marks=pytest.mark.soak)])
def test_a_fleet_comes_and_goes(world: World, size: int) -> None:
    fleet = [spec(n, nodegroup="big", taints=[GPU_TAINT], devices=P5) for n in range(100, 100 + size)]
    world.runtime.add_nodes("main", fleet)
    assert len(world.client.items("/api/v1/nodes", labelSelector="eks.amazonaws.com/nodegroup=big")) == size
    world.runtime.add_nodes("main", fleet)  # once more changes nothing
    world.runtime.remove_nodes("main", [node.name for node in fleet])
    assert not world.client.items("/api/v1/nodes", labelSelector="eks.amazonaws.com/nodegroup=big")
    assert not [
        p for p in world.client.items("/api/v1/pods") if p["spec"].get("nodeName") in {n.name for n in fleet}
    ]
