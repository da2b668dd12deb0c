"""Two nodes, each with its own torchrun, and somebody who starts again what ended with a status worth a retry.

That somebody is the training operator on a cluster; here it is a few lines that follow the same rule.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.trainer import jobs
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
    statuses: list[int] = field(default_factory=list)

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "trainer.launch", "--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "5",
             "--local-addr", "127.0.0.1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{self.port}",
             "--rdzv-id", "two-nodes", "--rdzv-conf", f"is_host={int(self.number == 0)},join_timeout=90",
             "-m", "trainer", "--config", str(self.file)],
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
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
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
    deadline = time.monotonic() + 400
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
