"""The objects that clusters are given: nodes and add-ons."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lab.nodes.components.api_server import SIMULATED_KUBELET
from lab.nodes.eks import addons
from lab.nodes.registration.node_object import node_object
from lab.nodes.registration.readiness import problem
from lab.nodes.simulated.device_plugins import offered_resource, runs
from lab.nodes.simulated.kwok import STAGES
from lab.nodes.simulated.node_object import SIMULATED, simulated_node_object
from lab.settings import Lab
from tests.lab.nodes.support import GPU_TAINT, P5, spec

LAB = Lab("test", Path("/cache"), Path("/state"))


def test_only_simulated_nodes_are_kwoks() -> None:
    simulated = simulated_node_object(spec(1, cpu="96", resources={"hugepages-2Mi": "10Gi"}), 10250)
    real = node_object(spec(1))
    assert simulated["metadata"]["annotations"] == dict([SIMULATED])
    assert simulated["status"]["allocatable"] == {
        "cpu": "96",
        "memory": "8Gi",
        "pods": "110",
        "hugepages-2Mi": "10Gi",
    }
    assert problem(simulated) == ""
    assert {a["type"] for a in simulated["status"]["addresses"]} > {SIMULATED_KUBELET, "InternalIP"}
    assert "annotations" not in real["metadata"]
    assert "status" not in real, "that is its kubelet's to say"


def test_devices_are_not_there_from_the_start() -> None:
    assert not set(P5) & set(simulated_node_object(spec(1, devices=P5), 10250)["status"]["capacity"])


def test_the_groups_labels_and_taints() -> None:
    node = simulated_node_object(spec(1, labels={"team": "a"}, taints=[GPU_TAINT]), 10250)
    assert node["metadata"]["labels"]["team"] == "a"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == node["metadata"]["name"]
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], "its kubelet has not reported yet"),
        (
            [{"type": "Ready", "status": "False", "message": "cni plugin not initialized"}],
            "cni plugin not initialized",
        ),
        ([{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}], ""),
    ],
)
def test_why_a_node_is_not_ready(conditions: list[dict[str, str]], expected: str) -> None:
    assert problem({"status": {"conditions": conditions}}) == expected


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        (("DaemonSet", "nvidia-device-plugin"), "nvidia.com/gpu"),
        (("DaemonSet", "aws-efa-k8s-device-plugin"), "vpc.amazonaws.com/efa"),
        (("DaemonSet", "dcgm-exporter"), None),
        (("ReplicaSet", "nvidia-device-plugin"), None),
    ],
)
def test_whose_pods_offer_devices(owner: tuple[str, str], expected: str | None) -> None:
    pod = {"metadata": {"ownerReferences": [{"kind": owner[0], "name": owner[1]}]}}
    assert offered_resource(pod) == expected


def test_a_pod_that_is_being_deleted_offers_nothing() -> None:
    assert runs({"metadata": {}, "status": {"phase": "Running"}})
    assert not runs({"metadata": {"deletionTimestamp": "now"}, "status": {"phase": "Running"}})
    assert not runs({"metadata": {}, "status": {"phase": "Pending"}})


def test_coredns_is_configured_as_the_addon_is() -> None:
    tolerations = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
    values = {"replicaCount": 1, "tolerations": tolerations, "nodeSelector": {"pool": "system"}}
    found = {item["kind"]: item for item in addons.objects(LAB, "coredns", values)}
    deployment = found["Deployment"]["spec"]
    assert deployment["replicas"] == 1
    assert deployment["template"]["spec"]["tolerations"] == tolerations
    assert deployment["template"]["spec"]["nodeSelector"] == {"pool": "system"}
    assert deployment["template"]["spec"]["containers"][0]["image"] == "localhost:14500/lab/coredns:v1.15.0"
    assert found["Service"]["spec"]["clusterIP"] == "172.20.0.10"


def test_every_manifest_has_a_path() -> None:
    for addon in ("coredns", "aws-fsx-csi-driver"):
        for item in addons.objects(LAB, addon, {}):
            assert addons.path_of(item).endswith(item["metadata"]["name"])
    assert addons.objects(LAB, "eks-pod-identity-agent", {}) == []


def test_the_stages_are_all_kinds_that_kwok_needs() -> None:
    kinds = [item["kind"] for item in yaml.safe_load_all(STAGES.read_text())]
    assert kinds == ["KwokConfiguration", *["Stage"] * 5]
