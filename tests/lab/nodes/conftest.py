"""One cluster for all tests of nodes, with a system node and a GPU node that are real, and one that is not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lab import images, processes, registry
from lab.images import storage
from lab.nodes import cleanup, programs
from lab.nodes.api import ClusterSpec
from lab.nodes.node import bridge
from lab.nodes.runtime import KubernetesRuntime
from lab.settings import LOOPBACK, Lab
from tests.lab.nodes.support import GPU_TAINT, P5, World, spec
from tests.lab.nodes.webhook import Webhook
from tests.ports import free_port_base

SYSTEM, ACCELERATED, SIMULATED = (
    spec(1, real=True),
    spec(2, real=True, nodegroup="p5", taints=[GPU_TAINT], devices=P5),
    spec(3, nodegroup="fleet", taints=[GPU_TAINT], devices=P5, cpu="191450m", memory="2052371068Ki"),
)


@pytest.fixture(scope="package")
def node_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab of its own, removed whatever happens."""
    state: Path = tmp_path_factory.mktemp("nodes")
    lab = Lab(name="test-nodes", cache=Lab.from_environment().cache, state=state, port_base=free_port_base())
    if reason := programs.why_no_real_nodes(lab):
        pytest.skip(reason)
    if bridge.read_alias(lab) is not None:
        pytest.skip(f"another lab has the bridge {lab.bridge} ({bridge.read_alias(lab)}): `make down` first")
    yield lab
    cleanup.remove_leftovers(lab)
    processes.stop_all(lab, grace=2)


@pytest.fixture(scope="package")
def stocked(node_lab: Lab) -> Lab:
    """The lab with its registry running and the images in it, and Debian's Python as test/base:1."""
    registry.start(node_lab)
    images.push(node_lab)
    target = f"docker://{node_lab.registry}/test/base:1"
    push = [
        storage.buildah(node_lab),
        "push",
        "--tls-verify=false",
        "localhost/shardyard/base:debian-12",
        target,
    ]
    subprocess.run([*map(str, push)], check=True, capture_output=True)
    return node_lab


@pytest.fixture(scope="package")
def webhook() -> Iterator[Webhook]:
    """The emulator's side of token authentication."""
    hook = Webhook()
    server = ThreadingHTTPServer((LOOPBACK, 0), hook.handler())
    hook.port = server.server_address[1]
    Thread(target=server.serve_forever, daemon=True).start()
    yield hook
    server.shutdown()


@pytest.fixture(scope="package")
def world(stocked: Lab, webhook: Webhook) -> Iterator[World]:
    runtime = KubernetesRuntime(stocked, f"http://{LOOPBACK}:{webhook.port}/_lab/authenticate")
    runtime.create_cluster(ClusterSpec("main", "1.34", "arn:aws:eks:us-east-1:123456789012:cluster/main"))
    for addon in ("vpc-cni", "kube-proxy", "aws-fsx-csi-driver"):
        runtime.install_addon("main", addon, "v1", {})
    runtime.add_nodes("main", [SYSTEM, ACCELERATED, SIMULATED])
    runtime.install_addon("main", "coredns", "v1", {"replicaCount": 1})
    yield World(stocked, runtime, "main", runtime._clusters["main"].plane.client)
    runtime.shutdown()
