"""The health check: reading, judging, and one real run over gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cluster.instances import ACCELERATED
from tests.trainer.campaign import Ended, Forge
from tests.trainer.conftest import ENVIRONMENT, PROJECT, torchrun
from trainer import exits
from trainer.health import devices, load, nccl_log, node, verdict
from trainer.health.check import Terms
from trainer.health.node import Node

FAULTY = "tests.trainer.faulty_node"
LIMIT, SHORT = 40, 15
"""Seconds without progress after which a measurement hangs; fewer where a test waits for them."""
Check = Callable[..., tuple[Ended, dict[str, Any]]]

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
        "0, NVIDIA H100 80GB HBM3, 0, 45, No, No",
        "1, NVIDIA H100 80GB HBM3, 3, 90, Yes, Yes",
        "2, Tesla T4, [N/A], 30, [N/A], [N/A]",
        "Unable to determine the device handle",
    ]
    good, bad, unknown = devices.parse(lines)
    assert good.problems() == unknown.problems() == []
    assert bad.problems() == [
        "GPU 1 has 3 uncorrected memory errors",
        "GPU 1 has 90 degrees",
        "GPU 1 could not replace a bad row of its memory",
        "GPU 1 has to be reset to replace a bad row of its memory",
    ]


def test_clocks_under_load() -> None:
    lines = [
        "0, 60, 1440, 1980, Not Active",
        "1, 90, 345, 1980, Active",
        "2, 60, 900, 1980, Not Active",
        "3, 30, 585, [N/A], [N/A]",
    ]
    assert [clock.problems() for clock in devices.parse_clocks(lines)] == [
        [],
        [
            "GPU 1 has 90 degrees under load",
            "GPU 1 is slowed down by its hardware: 345 of 1980 MHz under load",
        ],
        ["GPU 2 is slow: 900 of 1980 MHz under load"],
        [],
    ]


def test_clocks_are_asked_for_during_a_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", driver(tmp_path / "bin", "echo 0, 60, 1440, 1980, Not Active"))
    (clock,) = load.clocks(torch.device("cpu"), ask=True, seconds=0.5)
    assert (clock.clock, clock.max_clock) == (1440, 1980)
    assert load.clocks(torch.device("cpu"), ask=False, seconds=0.1) == []


def test_a_driver_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where something goes on holding the pipe of its answer."""
    monkeypatch.setenv("PATH", driver(tmp_path / "bin", "sleep 1000000"))
    with pytest.raises(subprocess.TimeoutExpired):
        devices._query(devices.STATE, timeout=0.5)


def test_a_log_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (device,) = devices.parse(["0, NVIDIA H100 80GB HBM3, 0, 45, No, No"])
    blind, clear, without = Node("a", 8, [device]), Node("b", 8, [device], []), Node("c", 8)
    assert node.unreadable([clear, without]) == []
    (line,) = node.unreadable([blind, clear, blind])
    assert line.startswith("XID errors are not judged on a, a: mount the node's /dev/kmsg")


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


def terms(kind: str | None, floor: float | None, within: float | None) -> Terms:
    return Terms(kind, floor, within, None, 120)


HEALTH = "trainer.health.__main__"


@pytest.fixture
def check(forge: Forge, tmp_path: Path) -> Check:
    """Run a real check on so many processes: its end and its report."""

    def run(
        processes: int, *options: str, module: str = HEALTH, **environment: str
    ) -> tuple[Ended, dict[str, Any]]:
        report = tmp_path / "report.json"
        done = forge.run(module, processes, *options, "--report", str(report), environment=environment)
        assert not done.stuck, done.text
        assert len(set(done.statuses)) == 1, "whoever starts them again needs one answer"
        assert report.exists(), done.text
        return done, json.loads(report.read_text())

    return run


@pytest.fixture
def faulty(check: Check) -> Check:
    """The same on four nodes of one process each, one of them with a fault (faulty_node.py)."""

    def run(fault: str, rank: int, *options: str, **environment: str) -> tuple[Ended, dict[str, Any]]:
        arguments = (fault, str(rank), "--node-size", "1", "--limit", str(LIMIT), *options)
        return check(4, *arguments, module=FAULTY, **environment)

    return run


def launched(processes: int, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A check as it is started on a cluster: by trainer.launch, which is torchrun."""
    return subprocess.run(
        torchrun(processes, *arguments, launcher="trainer.launch"),
        cwd=PROJECT, env={**ENVIRONMENT, **environment}, text=True, capture_output=True, timeout=300,
    )  # fmt: skip


def test_every_type_of_the_clusters_is_known_here() -> None:
    assert sorted(verdict.TYPES) == sorted(ACCELERATED)
    assert verdict.FLOORS.keys() == verdict.FLOORS_WITHIN.keys()


def test_an_unknown_type_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trainer.health", "--instance-type", "p5.48xlrage"],
        cwd=PROJECT, env=ENVIRONMENT, text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == exits.CONFIG
    assert done.stderr.startswith("health: p5.48xlrage is no instance type known here: p4d.24xlarge, ")


@pytest.mark.parametrize(
    ("held_to", "cuda", "expected"),
    [
        (terms("p5.48xlarge", 315.0, 430.0), True, []),
        (
            terms("p6-b200.48xlarge", None, None),
            True,
            [
                "bandwidth between nodes is not judged: no floor is known for p6-b200.48xlarge, and no --floor",
                "bandwidth within a node is not judged: no floor is known for p6-b200.48xlarge, and no --floor-within",
            ],
        ),
        (terms(None, 1.0, 1.0), True, ["whether NCCL uses EFA is not judged: no --instance-type"]),
        (terms(None, 1.0, 1.0), False, []),
        (
            terms(None, None, 1.0),
            False,
            ["bandwidth between nodes is not judged: no --instance-type, and no --floor"],
        ),
    ],
)
def test_what_is_not_judged_is_said(held_to: Terms, cuda: bool, expected: list[str]) -> None:
    assert held_to.unchecked(2, 8, cuda) == expected


@pytest.mark.processes
def test_what_is_not_judged_is_in_the_report(check: Check) -> None:
    done, content = check(2, "--instance-type", "p6-b200.48xlarge", "--node-size", "1")
    assert done.statuses[0] == exits.FINISHED, done.text
    assert content["problems"] == []
    (line,) = content["unchecked"]
    assert f"health: warning: {line}" in done.text
    assert "all nodes are fit" not in done.text


@pytest.mark.processes
def test_two_pretended_nodes_over_gloo(tmp_path: Path) -> None:
    """The floor is far above what loopback does, so the check must fail, and say how fast it was."""
    report = tmp_path / "report.json"
    floors = ("--floor", "1000", "--floor-within", "1000")
    done = launched(4, "trainer.health", "--node-size", "2", *floors, "--report", str(report))
    assert done.returncode == exits.UNHEALTHY, done.stderr[-3000:]
    content = json.loads(report.read_text())
    assert any(line.startswith("too slow, all with each other: ") for line in content["problems"])
    assert sum("GB/s within the node, floor 1000" in line for line in content["problems"]) == 2
    kinds = {(kind, operation) for kind, _, operation, _ in content["nodes"][0]["bandwidth"]}
    assert kinds == {
        (kind, operation) for kind in ("within", "between") for operation in ("all_reduce", "all_gather")
    }
    assert all(speed > 0 for *_, sizes in content["nodes"][1]["bandwidth"] for speed in sizes.values())


@pytest.mark.processes
def test_the_slow_one_of_four_is_named(faulty: Check) -> None:
    """Node 2 needs a fifth of a second more for every collective."""
    done, content = faulty("slow", 2, "--floor", "0.035")
    assert done.statuses[0] == exits.UNHEALTHY, done.text
    (problem,) = content["problems"]
    assert problem.startswith("slow with nodes that are fast with others: ")
    assert "(node 2); GB/s " in problem
    assert {node for pair in content["pairs"] for node in pair[:2]} == {0, 1, 2, 3}
    assert {kind for node in content["nodes"] for kind, *_ in node["bandwidth"]} == {"between", "all"}
    assert [line.partition(" reach ")[0] for line in content["warnings"]] == ["all 4 nodes together"]


@pytest.mark.processes
def test_pairs_are_measured_at_the_same_time(faulty: Check, tmp_path: Path) -> None:
    """And all nodes together after them, which is reported, and blames nobody."""
    folder = tmp_path / "together"
    folder.mkdir()
    done, content = faulty("together", 0, TOGETHER=str(folder))
    assert done.statuses[0] == exits.FINISHED, done.text
    assert [pair[:2] for pair in content["pairs"]] == [[0, 1], [2, 3]]
    assert content["all"] > 0


@pytest.mark.processes
@pytest.mark.parametrize(
    ("odd", "status", "problems"),
    [
        (-1, exits.FINISHED, []),
        (2, exits.UNHEALTHY, ["(node 2): aws-ofi-nccl is 1.9.0, on other nodes 1.14.0"]),
    ],
)
def test_other_libraries_than_the_pinned_ones(
    odd: int, status: int, problems: list[str], faulty: Check
) -> None:
    """On all nodes they are worth a warning; on one of them they make it unfit."""
    done, content = faulty("libraries", odd)
    assert done.statuses[0] == status, done.text
    assert [line[line.index("(") :] for line in content["problems"]] == problems
    assert "aws-ofi-nccl is 1.14.0, pinned is 1.19.0" in content["warnings"]


PLACE = "in between nodes 2 and 3: all_gather of 4096 KiB"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ("raise", f"(node 2), rank 2: ArithmeticError: a cosmic ray, {PLACE}"),
        ("kill", "(node 2), rank 2: its process was ended by SIGKILL"),
        ("stop", f"(node 2), rank 2: no sign of life, {PLACE}"),
        ("hang", f"(node 3), ranks 2, 3: no progress for {SHORT} s, {PLACE}"),
    ],
)
def test_who_breaks_a_measurement_off_is_named(fault: str, named: str, faulty: Check) -> None:
    limit = SHORT if fault == "hang" else LIMIT
    done, content = faulty(fault, 2, "--limit", str(limit))
    assert done.statuses[0] == exits.UNHEALTHY, done.text
    (problem,) = content["problems"]
    assert problem.endswith(named)
    assert f"health: {problem}" in done.text
    (_, members, operation, _), *_ = content["nodes"][0]["bandwidth"]
    assert (members, operation) == ([0, 1], "all_gather"), "what was measured is reported"


@pytest.mark.processes
def test_a_process_that_is_killed_with_its_worker_is_named(tmp_path: Path) -> None:
    """torchrun then ends all others of that node: the report is written before they go."""
    report = tmp_path / "report.json"
    options = ("--node-size", "1", "--limit", str(LIMIT), "--report", str(report))
    done = launched(4, FAULTY, "orphan", "2", *options)
    assert done.returncode == 128 + 9, done.stdout[-2000:] + done.stderr[-3000:]
    content = json.loads(report.read_text())
    (problem,) = content["problems"]
    assert problem.endswith("(node 2), rank 2: the process that watches it is gone")


@pytest.mark.processes
def test_without_the_process_that_judges_the_others_end_and_say_so() -> None:
    arguments = ("unjudged", "0", "--node-size", "1", "--limit", str(LIMIT))
    done = launched(2, FAULTY, *arguments, TORCH_ELASTIC_SHUTDOWN_TIMEOUT="3")
    assert done.returncode == exits.RETRY, done.stdout[-2000:] + done.stderr[-3000:]
    assert f"health: rank 0 on host {os.uname().nodename}, which judges, gives no sign of life" in done.stderr


def driver(folder: Path, script: str) -> str:
    """A PATH whose nvidia-smi is this shell script; `gpus N` prints N good ones."""
    folder.mkdir()
    program = folder / "nvidia-smi"
    good = "$n, NVIDIA H100 80GB HBM3, 0, 45, No, No"
    program.write_text(
        f'#!/bin/sh\ngpus() {{ n=0; while [ $n -lt $1 ]; do echo "{good}"; n=$((n+1)); done; }}\n{script}\n'
    )
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("script", "options", "named"),
    [
        ("gpus $((8 - RANK))", (), "(node 1): 8 GPUs were expected, 7 are visible"),
        ("[ $RANK = 1 ] || gpus 8", ("--gpus", "8"), "(node 1): 8 GPUs were expected, none is visible"),
        ("[ $RANK = 1 ] && exit 9; gpus 8", (), "returned non-zero exit status 9."),
        ("gpus 1 | sed s/0,/$((3*RANK)),/2", (), "(node 1): GPU 0 has 3 uncorrected memory errors"),
    ],
)
def test_a_node_with_bad_devices_is_named_before_anything_uses_them(
    script: str, options: tuple[str, ...], named: str, check: Check, tmp_path: Path
) -> None:
    path = driver(tmp_path / "bin", script)
    done, content = check(2, "--node-size", "1", *options, PATH=path)
    assert done.statuses[0] == exits.UNHEALTHY, done.text
    (problem,) = content["problems"]
    assert problem.endswith(named)
    assert content["nodes"][0]["bandwidth"] == []


@pytest.mark.processes
def test_gpus_that_the_driver_lists_and_cuda_cannot_use(check: Check, tmp_path: Path) -> None:
    path = driver(tmp_path / "bin", "gpus 2")
    done, content = check(2, PATH=path, CUDA_VISIBLE_DEVICES="")
    assert done.statuses[0] == exits.UNHEALTHY, done.text
    (problem,) = content["problems"]
    assert "(node 0), ranks 0, 1: " in problem
    assert problem.endswith(", in starting its GPU")
