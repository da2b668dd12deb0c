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
        "0, NVIDIA H100 80GB HBM3, 0, 45, 1980, 1980, Not Active, No, No",
        "1, NVIDIA H100 80GB HBM3, 3, 90, 345, 1980, Active, Yes, Yes",
        "2, Tesla T4, [N/A], 30, 585, 1590, Not Active, [N/A], [N/A]",
    ]
    good, bad, unknown = devices.parse(lines)
    assert good.problems() == unknown.problems() == []
    assert bad.problems() == [
        "GPU 1 has 3 uncorrected memory errors",
        "GPU 1 has 90 degrees",
        "GPU 1 is slowed down by its hardware: 345 of 1980 MHz",
        "GPU 1 could not replace a bad row of its memory",
        "GPU 1 has to be reset to replace a bad row of its memory",
    ]


def test_errors_in_the_kernel_s_log(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(
        "4,1,0,-;usb 1-1: new device\n"
        "4,2,0,-;NVRM: Xid (PCI:0000:b9:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
        "4,3,0,-;NVRM: Xid (PCI:0000:b9:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
        "4,4,0,-;NVRM: Xid (PCI:0000:53:00): 13, pid=7, name=python, Graphics Exception\n"
    )
    application, broken = devices.faults(str(log)) or []
    assert (application.xid, application.hardware) == (13, False)
    assert (broken.xid, broken.hardware) == (79, True)
    assert str(broken) == "the kernel's log has XID 79 of the GPU at 0000:b9:00"
    assert devices.faults(str(tmp_path / "none")) is None


def measured(nodes: int, bad: set[int], links: set[tuple[int, int]] = frozenset()) -> list[dict]:  # type: ignore
    """What each round knows of nodes of which some are slow, and some connections."""
    known: dict[tuple[int, int], float] = {}
    rounds = []
    while pairs := verdict.next_round(nodes, known, FLOOR):
        used = [node for pair in pairs for node in pair]
        assert len(used) == len(set(used)), "a node is measured with one other at a time"
        assert not known.keys() & {*pairs}
        known |= {pair: 8.0 if bad & {*pair} or pair in links else 300.0 for pair in pairs}
        rounds.append(dict(known))
    return rounds


FLOOR = 100.0


@given(st.integers(2, 40))
def test_good_nodes_take_one_round_and_the_odd_one_another(nodes: int) -> None:
    rounds = measured(nodes, set())
    assert len(rounds) == 1 + nodes % 2
    assert {node for pair in rounds[-1] for node in pair} == {*range(nodes)}
    assert verdict.judge(rounds[-1], FLOOR).clean


@given(st.data())
def test_all_bad_nodes_are_named_and_no_other(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(3, 24))
    bad = data.draw(st.sets(st.integers(0, nodes - 1), max_size=nodes - 2))
    rounds = measured(nodes, bad)
    found = verdict.judge(rounds[-1], FLOOR)
    assert (found.bad, found.doubtful, found.links) == (sorted(bad), [], [])
    if len(bad) == 1:
        assert len(rounds) <= 3


def test_two_nodes_cannot_be_told_apart() -> None:
    found = verdict.judge(measured(2, {1})[-1], FLOOR)
    assert (found.bad, found.doubtful) == ([], [0, 1])
    assert measured(1, set()) == []


@given(st.integers(2, 12))
def test_a_slow_connection_is_no_node_s_fault(half: int) -> None:
    found = verdict.judge(measured(2 * half, set(), {(0, 1)})[-1], FLOOR)
    assert (found.bad, found.doubtful, found.links) == ([], [], [(0, 1)])


@pytest.mark.processes
def test_two_pretended_nodes_over_gloo(tmp_path: Path) -> None:
    """The floor is far above what loopback does, so the check must fail, and say how fast it was."""
    report = tmp_path / "report.json"
    done = subprocess.run(
        torchrun(4, "trainer.health", "--node-size", "2", "--floor", "1000",
                 "--floor-within", "1000", "--gpus", "8", "--report", str(report),
                 launcher="trainer.launch"),
        cwd=PROJECT, env=ENVIRONMENT, text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == UNHEALTHY, done.stderr[-3000:]
    content = json.loads(report.read_text())
    assert any("8 GPUs were expected, and none is visible" in line for line in content["problems"])
    assert any(line.startswith("too slow, all with each other: ") for line in content["problems"])
    assert sum("GB/s within the node, floor 1000" in line for line in content["problems"]) == 2
    kinds = {(kind, operation) for kind, _, operation, _ in content["nodes"][0]["bandwidth"]}
    assert kinds == {
        (kind, operation) for kind in ("within", "between") for operation in ("all_reduce", "all_gather")
    }
    assert all(speed > 0 for *_, sizes in content["nodes"][1]["bandwidth"] for speed in sizes.values())


@pytest.mark.processes
def test_the_slow_one_of_four_is_named(tmp_path: Path) -> None:
    """Node 2 needs a fifth of a second more for every collective."""
    report = tmp_path / "report.json"
    done = subprocess.run(
        torchrun(4, "tests.trainer.slow_node", "2", "--node-size", "1", "--floor", "0.025", "--report", str(report),
                 launcher="trainer.launch"),
        cwd=PROJECT, env=ENVIRONMENT, text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == UNHEALTHY, done.stdout[-2000:] + done.stderr[-3000:]
    content = json.loads(report.read_text())
    (problem,) = content["problems"]
    assert problem.startswith("slow with nodes that are fast with others: ")
    assert "(node 2); GB/s " in problem
    assert {node for pair in content["pairs"] for node in pair[:2]} == {0, 1, 2, 3}
    assert {kind for node in content["nodes"] for kind, *_ in node["bandwidth"]} == {"between", "all"}
