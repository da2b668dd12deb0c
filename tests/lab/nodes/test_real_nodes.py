"""Real nodes: what a pod needs of them."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen

import pytest

from lab.nodes.node.devices import PYTHON_IN_POD
from tests.lab.nodes.conftest import ACCELERATED, SYSTEM
from tests.lab.nodes.support import EFA, GPU, World, plugin, pod
from tests.waiting import eventually

pytestmark = pytest.mark.lab
SERVE = ("python3", "-m", "http.server", "8080", "--directory", "/etc")
NODES = {"near": SYSTEM.name, "far": ACCELERATED.name}


def fetch(url: str) -> tuple[str, ...]:
    """A command that prints what is at the URL."""
    return (
        "python3",
        "-c",
        f"import urllib.request as u; print(u.urlopen('{url}', timeout=20).read().decode())",
    )


@pytest.fixture(scope="module")
def pods(world: World) -> dict[str, str]:
    """A web server on each real node, and a Service `web` of both; their addresses."""
    port = [{"port": 80, "targetPort": 8080}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    world.apply(
        *(pod(world, name, node, SERVE) for name, node in NODES.items()),
        {**service, "spec": {"selector": {"app": "far"}, "ports": port}},
    )
    world.kubectl("wait", "--for=condition=Ready", "pod/near", "pod/far", "--timeout=90s")
    return {name: world.kubectl("get", "pod", name, "-o", "jsonpath={.status.podIP}") for name in NODES}


def test_nodes_look_like_eks_nodes(world: World) -> None:
    node = world.client.get(f"/api/v1/nodes/{ACCELERATED.name}")
    assert node["spec"]["providerID"] == f"aws:///us-east-1a/{ACCELERATED.instance_id}"
    assert node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] == "p5"
    assert node["metadata"]["labels"]["topology.k8s.aws/zone-id"] == "use1-az1"
    assert {"key": GPU, "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.34.4"


def test_the_machine_keeps_its_kernel_settings(world: World) -> None:
    """The kubelet wants vm.overcommit_memory=1; the node shows it that without changing the machine's."""
    before = Path("/proc/sys/vm/overcommit_memory").read_text().strip()
    inside = world.runtime._clusters["main"]._real[SYSTEM.name].first_process()
    assert Path(f"/proc/{inside}/root/proc/sys/vm/overcommit_memory").read_text().strip() == "1"
    assert before != "1"


def test_logs_and_exec(world: World, pods: dict[str, str]) -> None:
    world.apply(pod(world, "talker", SYSTEM.name, ("sh", "-c", "echo it works; sleep 1000")))
    eventually(lambda: "it works" in world.kubectl("logs", "talker", check=False))
    assert world.kubectl("exec", "near", "--", "hostname").strip() == "near"


def test_port_forward(world: World, pods: dict[str, str]) -> None:
    command = [world.lab.bin / "kubectl", f"--kubeconfig={world.kubeconfig}", "port-forward", "far", ":8080"]
    with Popen([*map(str, command)], stdout=PIPE, stderr=DEVNULL, text=True) as forward:
        assert forward.stdout
        try:
            address = forward.stdout.readline().split()[2]  # Forwarding from 127.0.0.1:40321 -> 8080
            assert urllib.request.urlopen(f"http://{address}/hostname", timeout=60).read().strip() == b"far"
        finally:
            forward.terminate()


@pytest.mark.parametrize(("source", "target"), [("near", "far"), ("far", "near"), ("near", "near")])
def test_pods_reach_pods(world: World, pods: dict[str, str], source: str, target: str) -> None:
    assert (
        world.kubectl("exec", source, "--", *fetch(f"http://{pods[target]}:8080/hostname")).strip() == target
    )


@pytest.mark.parametrize("source", ["near", "far"])
def test_pods_reach_services_by_name(world: World, pods: dict[str, str], source: str) -> None:
    """From another node, and from the very pod that answers."""
    url = "http://web.default.svc.cluster.local/hostname"
    assert eventually(lambda: world.kubectl("exec", source, "--", *fetch(url), check=False)).strip() == "far"


def test_the_api_server_reaches_pods(world: World, pods: dict[str, str]) -> None:
    """As it must, to call webhooks: the host has no kube-proxy."""
    answer = world.client.get("/api/v1/namespaces/default/services/web:80/proxy/hostname")
    assert answer["text"].strip() == "far"


def test_pods_reach_the_api_server(world: World, pods: dict[str, str]) -> None:
    code = (
        "import ssl,urllib.request as u; d='/var/run/secrets/kubernetes.io/serviceaccount/';"
        "c=ssl.create_default_context(cafile=d+'ca.crt');"
        "print(u.urlopen('https://kubernetes.default.svc/version',context=c,timeout=20).read().decode())"
    )
    assert "v1.34.4" in world.kubectl("exec", "far", "--", "python3", "-c", code)


def test_devices_come_with_their_plugins(world: World) -> None:
    assert GPU not in world.allocatable(ACCELERATED.name)
    world.apply(
        plugin(world, "nvidia-device-plugin", "lab/nvidia-device-plugin:1", "p5"),
        plugin(world, "efa-device-plugin", "lab/efa-device-plugin:1", "p5"),
    )
    eventually(lambda: world.allocatable(ACCELERATED.name).get(GPU) == "8")
    eventually(lambda: world.allocatable(ACCELERATED.name).get(EFA) == "32")
    assert GPU not in world.allocatable(SYSTEM.name)

    limits = {"resources": {"limits": {GPU: "2", EFA: "8"}}}
    world.apply(pod(world, "trainer", ACCELERATED.name, container=limits))
    eventually(lambda: world.pod_phase("trainer") == "Running")
    offered = list((world.lab.cache / "python").glob("trainer-*"))
    if offered:
        world.kubectl("exec", "trainer", "--", "ls", f"{PYTHON_IN_POD}/torch")

    # A kubelet that restarts forgets its plugins, and they come back by themselves.
    world.runtime._clusters["main"]._real[ACCELERATED.name].restart_kubelet()
    time.sleep(2)
    eventually(lambda: world.allocatable(ACCELERATED.name).get(GPU) == "8", 90)
    assert world.pod_phase("trainer") == "Running"


def test_file_systems_are_mounted(world: World) -> None:
    """Written on one node, read on another, as FSx for Lustre; the pods' spec is the same as on AWS."""
    handle = "fs-0123456789abcdef0"
    folder = world.lab.file_systems / handle
    folder.mkdir(parents=True)
    capacity, modes = {"storage": "1200Gi"}, ["ReadWriteMany"]
    claim = {"name": "fsx", "namespace": "default"}
    csi = {
        "driver": "fsx.csi.aws.com",
        "volumeHandle": handle,
        "volumeAttributes": {"dnsname": f"{handle}.fsx.us-east-1.amazonaws.com", "mountname": "abcdefgh"},
    }
    volume = {"capacity": capacity, "accessModes": modes, "csi": csi, "claimRef": claim}
    request = {
        "accessModes": modes,
        "storageClassName": "",
        "volumeName": "fsx",
        "resources": {"requests": capacity},
    }
    world.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "fsx"}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim, "spec": request},
    )
    mount = {"volumeMounts": [{"name": "fsx", "mountPath": "/fsx"}]}
    volumes = [{"name": "fsx", "persistentVolumeClaim": {"claimName": "fsx"}}]
    write = ("sh", "-c", "echo a line > /fsx/file && sleep 1000")
    world.apply(pod(world, "writer", ACCELERATED.name, write, container=mount, volumes=volumes))
    world.apply(pod(world, "reader", SYSTEM.name, container=mount, volumes=volumes))
    world.kubectl("wait", "--for=condition=Ready", "pod/writer", "pod/reader", "--timeout=90s")
    assert world.kubectl("exec", "reader", "--", "cat", "/fsx/file") == "a line\n"
    assert (folder / "file").read_text() == "a line\n"
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()

    world.kubectl("delete", "pod", "writer", "reader", "--wait")
    inside = world.runtime._clusters["main"]._real[SYSTEM.name].first_process()
    eventually(lambda: "fsx.csi.aws.com" not in Path(f"/proc/{inside}/mountinfo").read_text())
    assert (folder / "file").exists(), "the file system outlives its pods"
