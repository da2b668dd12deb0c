"""Two nodes, each with its own torchrun, and somebody who starts again what ended with a status worth a retry.

That somebody is the training operator on a cluster; here it is a few lines that follow the same rule.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port
from tests.trainer import jobs
from tests.trainer.campaign import Campaign, Forge
from tests.trainer.conftest import ENVIRONMENT, PROJECT
from trainer import exits, history

pytestmark = pytest.mark.processes

STEPS = 90


def children(process: int) -> list[int]:
    """Process numbers of all descendants."""
    found = [int(number) for number in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return found + [below for child in found for below in children(child)]


@dataclass
class Node:
    """One worker pod: worker 0 holds the rendezvous."""

    number: int
    port: int
    file: Path
    log: Path
    nodes: str = "2"
    conf: str = ""
    statuses: list[int] = field(default_factory=list)

    def start(self) -> None:
        restarts = [] if ":" in self.nodes else ["--max-restarts", "5"]
        conf = f"is_host={int(self.number == 0)},join_timeout=90{self.conf}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "trainer.launch", "--nnodes", self.nodes, "--nproc-per-node", "1", *restarts,
             "--local-addr", "127.0.0.1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.port}",
             "--rdzv-id", "two-nodes", "--rdzv-conf", conf, "-m", "trainer", "--config", str(self.file)],
            cwd=PROJECT, env={**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "lo"}, stdout=self.log.open("a"),
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def destroy(self) -> None:
        """As a power cut does."""
        for number in [self.process.pid, *children(self.process.pid)]:
            os.kill(number, signal.SIGKILL)

    def look_after(self) -> bool:
        """Start again if that can help; whether the node has finished its job."""
        status = self.process.poll()
        if status is None:
            return False
        self.statuses.append(status)
        if status == 0:
            return True
        assert status >= 128 or status < 0, (
            f"status {status} says that a retry is useless:\n{self.log.read_text()}"
        )
        self.start()
        return False


def test_lost_nodes_come_back_and_the_job_ends_well(tmp_path: Path) -> None:
    port = free_port()
    output = tmp_path / "output"
    file = jobs.write(
        tmp_path / "job.yaml",
        output,
        steps=STEPS,
        checkpoint={"every": 10},
        limits={"stop_seconds": 20, "collective_seconds": 20},
    )
    nodes = [Node(number, port, file, tmp_path / f"node-{number}.log") for number in range(2)]
    for node in nodes:
        node.start()

    def reported(step: int) -> bool:
        path = output / "metrics.jsonl"
        return path.exists() and f'"event": "step", "step": {step},' in path.read_text()

    plan: list[tuple[int, Callable[[], None]]] = [
        (12, lambda: nodes[1].process.send_signal(signal.SIGTERM)),  # the pod is deleted
        (34, lambda: nodes[1].destroy()),  # its node is lost
        (56, lambda: nodes[0].destroy()),  # the other one, with the rendezvous on it
    ]
    deadline = time.monotonic() + 900
    finished: set[int] = set()
    while len(finished) < 2:
        if plan and reported(plan[0][0]):
            plan.pop(0)[1]()
        for node in nodes:
            if node.number not in finished and node.look_after():
                finished.add(node.number)
        if time.monotonic() > deadline:
            for node in nodes:
                node.destroy()
            pytest.fail("\n".join(node.log.read_text()[-5000:] for node in nodes))
        time.sleep(0.02)

    assert not plan, "the job ended before everything was broken"
    run = history.read(output / "metrics.jsonl")
    assert list(run.losses) == list(range(1, STEPS + 1))
    assert len(run.starts) == 4
    assert run.starts[1]["step"] >= 12, "the pod that was deleted saved where it stood"
    assert exits.TERMINATED in nodes[1].statuses
    assert run.losses[STEPS] < 4.0


def test_an_elastic_job_goes_on_without_a_lost_node(tmp_path: Path, forge: Forge) -> None:
    """Two nodes or one: when one is lost for good, the other goes on alone, from the newest checkpoint and with the
    batches that were next."""
    settings: dict[str, Any] = {
        "steps": STEPS,
        "checkpoint": {"every": 10},
        "limits": {"stop_seconds": 20, "collective_seconds": 20},
    }
    unbroken = Campaign(forge, tmp_path / "unbroken", settings)
    assert unbroken.start(1)["statuses"] == [exits.FINISHED]
    output, port = tmp_path / "output", free_port()
    settings["data"] = {"source": None, "prepared": str(unbroken.output / "data")}
    file = jobs.write(tmp_path / "job.yaml", output, **settings)
    quick = ",last_call_timeout=3,keep_alive_interval=1,keep_alive_max_attempt=3"
    nodes = [Node(number, port, file, tmp_path / f"node-{number}.log", "1:2", quick) for number in range(2)]
    for node in nodes:
        node.start()
    try:
        metrics = output / "metrics.jsonl"
        deadline = time.monotonic() + 500
        while not (metrics.exists() and '"event": "step", "step": 14,' in metrics.read_text()):
            assert time.monotonic() < deadline, nodes[0].log.read_text()
            time.sleep(0.01)
        nodes[1].destroy()
        assert nodes[0].process.wait(timeout=500) == exits.FINISHED, nodes[0].log.read_text()
    finally:
        for node in nodes:
            with suppress(OSError):
                node.destroy()
    run = history.read(metrics)
    assert [(start["world"], start["step"]) for start in run.starts] in (
        [(2, 0), (1, at)] for at in range(10, STEPS, 10)
    )
    assert "no answer from rank" in nodes[0].log.read_text()
    assert run.losses == pytest.approx(history.read(unbroken.output / "metrics.jsonl").losses, rel=1e-5)
