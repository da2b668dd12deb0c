"""The health check: reading, judging, and one real run over gloo."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.conftest import ENVIRONMENT, PROJECT, torchrun
from trainer.health import devices, nccl_log, verdict
from trainer.health.__main__ import UNHEALTHY

GOOD = """\
node-1:101:101 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
node-1:101:140 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.16.3
node-1:101:140 [0] NCCL INFO NET/OFI Using Libfabric version 2.1
node-1:101:140 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)
node-1:101:140 [0] NCCL INFO Using network Libfabric
node-1:101:150 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Libfabric/0/GDRDMA
node-1:101:150 [0] NCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/Libfabric/1(0)/GDRDMA
node-1:101:150 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
"""
TCP = """\
node-1:101:140 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so
node-1:101:140 [0] NCCL INFO Using network Socket
node-1:101:150 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0
"""


def test_a_good_log() -> None:
    network = nccl_log.read(GOOD.splitlines())
    assert network == nccl_log.Network("2.27.5", "1.16.3", "2.1", "efa", False, 2, 2)
    assert network.problems() == []


def test_tcp_is_noticed() -> None:
    assert nccl_log.read(TCP.splitlines()).problems() == [
        "NCCL did not load aws-ofi-nccl", "NCCL talks TCP between nodes",
    ]  # fmt: skip


def test_missing_gpudirect_is_noticed() -> None:
    assert nccl_log.read(GOOD.replace("/0/GDRDMA", "/0").splitlines()).problems() == [
        "1 of 2 channels lack GPUDirect RDMA"
    ]


def test_devices() -> None:
    lines = [
        "0, NVIDIA H100 80GB HBM3, 0, 45, 1980, 1980",
        "1, NVIDIA H100 80GB HBM3, 3, 90, 345, 1980",
        "2, Tesla T4, [N/A], 30, 585, 1590",
    ]
    good, bad, unknown = devices.parse(lines)
    assert good.problems() == unknown.problems() == []
    assert bad.problems() == ["GPU 1 has 3 uncorrected memory errors", "GPU 1 has 90 degrees"]


@given(st.integers(0, 40))
def test_rounds_never_use_a_node_twice_and_reach_all(nodes: int) -> None:
    rounds = verdict.rounds(nodes)
    for pairs in rounds:
        used = [node for pair in pairs for node in pair]
        assert len(used) == len(set(used))
    everything = [pair for pairs in rounds for pair in pairs]
    assert len(everything) == len(set(everything))
    for node in range(nodes if nodes > 1 else 0):
        assert sum(node in pair for pair in everything) == (1 if nodes == 2 else 2)


@given(st.integers(3, 20), st.data())
def test_one_bad_node_is_the_only_suspect(nodes: int, data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, nodes - 1))
    measured = {pair: 8.0 if bad in pair else 300.0 for pairs in verdict.rounds(nodes) for pair in pairs}
    expected = [bad] if nodes > 3 else verdict.suspects(measured, 100.0)
    assert verdict.suspects(measured, 100.0) == expected
    assert bad in expected
    assert verdict.suspects(measured, 5.0) == []


@pytest.mark.processes
def test_two_pretended_nodes_over_gloo(tmp_path: Path) -> None:
    """The floor is far above what loopback does, so the check must fail, and say how fast it was."""
    report = tmp_path / "report.json"
    done = subprocess.run(
        torchrun(4, "trainer.health", "--node-size", "2", "--floor", "1000", "--gpus", "8", "--report", str(report),
                 launcher="trainer.launch"),
        cwd=PROJECT, env=ENVIRONMENT, text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == UNHEALTHY, done.stderr[-3000:]
    content = json.loads(report.read_text())
    assert any("8 GPUs were expected, and none is visible" in line for line in content["problems"])
    assert any("too slow with every neighbour" in line for line in content["problems"])
    kinds = {(kind, operation) for kind, _, operation, _ in content["nodes"][0]["bandwidth"]}
    assert kinds == {
        (kind, operation) for kind in ("within", "between") for operation in ("all_reduce", "all_gather")
    }
    assert all(speed > 0 for *_, sizes in content["nodes"][1]["bandwidth"] for speed in sizes.values())
