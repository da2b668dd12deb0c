"""The process that touches GPUs and NCCL. They may hang it or end it, so another process, that does neither, watches it
and tells of it (check.py). It is forked before there are threads or connections."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import PrefixStore, TCPStore

from trainer import exits, versions, votes
from trainer.health import nccl_log, verdict
from trainer.health.devices import Clock
from trainer.health.load import clocks
from trainer.health.progress import WAITING, Progress, give_signs
from trainer.health.sweep import measure

MIB = 1 << 20
LARGEST = {"cuda": 1024 * MIB, "cpu": 4 * MIB}
PATIENCE = 20
"""Time limit of a collective of the worker, as a multiple of the check's own: who watches shall speak first."""
LET_HANG = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_ENABLE_MONITORING": "0"}
"""PyTorch would end a process whose NCCL lost a peer, and it would look like the one to blame."""
STRANGERS = (signal.SIGTERM, signal.SIGINT)
"""Signals that the watching process answers for both."""


@dataclass(frozen=True)
class Plan:
    """What the watching process found out before there is anything to measure."""

    rank: int
    world: int
    local_rank: int
    node_size: int
    cuda: bool
    floor: float
    limit: float
    """Seconds."""
    host: str
    port: int
    name: str
    logs: str
    """Folder of NCCL's logs of this process."""
    environment: dict[str, str] = field(default_factory=dict)


class Worker:
    """A forked process that waits for its plan."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("fork")
        orders, self._plans = context.Pipe(duplex=False)
        self._process = context.Process(target=_main, args=(orders, self._plans), daemon=True)
        self._process.start()
        orders.close()

    def start(self, plan: Plan) -> None:
        self._plans.send(plan)

    def ended_by(self) -> str | None:
        """None while it lives."""
        code = self._process.exitcode
        if code is None:
            return None
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"

    def kill(self) -> None:
        self._process.kill()


def _main(plans: Connection, other_end: Connection) -> None:
    other_end.close()
    for number in STRANGERS:
        signal.signal(number, signal.SIG_IGN)
    try:
        plan: Plan = plans.recv()
    except EOFError:
        os._exit(1)
    os.environ |= plan.environment | LET_HANG
    store = TCPStore(plan.host, plan.port, is_master=False, wait_for_workers=False)
    progress = Progress(store, plan.name)
    threading.Thread(target=_outlive_nobody, args=(plans, plan), daemon=True).start()
    work = Work(plan, progress)
    give_signs(store, plan.name, plan.rank)
    try:
        progress.done(plan.rank, work.all(PrefixStore(f"{plan.name}/health/groups", store)))
    except Exception as error:
        lost = votes.of_a_collective(error)
        if not lost:
            traceback.print_exc()
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        progress.failed(plan.rank, reason, place=work.place, lost=lost)
    exits.at_once(0)  # taking leave of processes that are gone may take for ever


def _outlive_nobody(plans: Connection, plan: Plan) -> None:
    try:
        plans.recv()
    except (EOFError, OSError):
        store = TCPStore(plan.host, plan.port, is_master=False, wait_for_workers=False)
        Progress(store, plan.name).failed(plan.rank, "the process that watches it is gone")
    finally:
        os._exit(1)


class Work:
    """All that is measured, and where this process is in it."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._plan, self._progress = plan, progress
        self.place = ""
        self._device = torch.device("cuda", plan.local_rank) if plan.cuda else torch.device("cpu")
        self._bandwidth: list[Any] = []

    def all(self, store: PrefixStore) -> dict[str, Any]:
        plan = self._plan
        if plan.cuda:
            self._go("starting its GPU")
            torch.cuda.set_device(self._device)
            torch.ones(MIB, device=self._device).sum().item()
        self._go(WAITING)
        dist.init_process_group(
            "gloo", store=store, rank=plan.rank, world_size=plan.world, timeout=self._timeout
        )
        under_load = self._under_load() if plan.cuda else []
        nodes = plan.world // plan.node_size
        inside = self._sweep("within", [(number,) for number in range(nodes)])
        between: dict[verdict.Pair, float] = {}
        while pairs := verdict.next_round(nodes, between, plan.floor):
            between |= {(one[0], one[1]): speed for one, speed in self._sweep("between", [*pairs]).items()}
        together = self._sweep("all", [tuple(range(nodes))]) if nodes > 2 else {}
        return {
            "bandwidth": self._bandwidth,
            "under_load": [asdict(clock) for clock in under_load],
            "within": [[number, speed] for (number,), speed in sorted(inside.items())],
            "between": [[*pair, speed] for pair, speed in sorted(between.items())],
            "all": next(iter(together.values()), None),
            **self._libraries(),
        }

    def _go(self, place: str) -> None:
        self.place = place
        self._progress.at(self._plan.rank, place)

    @property
    def _timeout(self) -> timedelta:
        return timedelta(seconds=PATIENCE * self._plan.limit)

    def _under_load(self) -> list[Clock]:
        """The clocks of this node's GPUs, while all of them compute."""
        dist.barrier()
        self._go("a load on its GPU")
        return clocks(self._device, ask=self._plan.rank % self._plan.node_size == 0)

    def _sweep(self, kind: str, sets: list[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
        """Measure sets of nodes at the same time; GB/s of the largest all-reduce, on all processes."""
        own = self._group(sets)
        found = {own[0]: self._measure(kind, *own)} if own else {}
        self._go(WAITING)
        everyone: list[Any] = [None] * self._plan.world
        dist.all_gather_object(everyone, found)
        return {members: speed for one in everyone for members, speed in one.items()}

    def _group(self, sets: list[tuple[int, ...]]) -> tuple[tuple[int, ...], dist.ProcessGroup] | None:
        """The nodes that this one is measured with, and the group of their processes.

        Every process has to make every group, in the same order, and each waits for all: so all before measuring.
        """
        plan, found = self._plan, None
        backend = "nccl" if plan.cuda else "gloo"
        for members in sets:
            if len(members) * plan.node_size == 1:
                continue
            group = dist.new_group(self._ranks(members), timeout=self._timeout, backend=backend)
            if plan.rank // plan.node_size in members:
                assert isinstance(group, dist.ProcessGroup)
                found = members, group
        return found

    def _measure(self, kind: str, members: tuple[int, ...], group: dist.ProcessGroup) -> float:
        """GB/s of the largest all-reduce."""
        largest = LARGEST[self._device.type]
        for operation in ("all_gather", "all_reduce"):
            sizes: dict[int, float] = {}
            for size in (largest // 16, largest):
                self._go(f"{kind} {_those(members)}: {operation} of {size >> 10} KiB")
                sizes |= measure(operation, [size], self._ranks(members), group, self._device)
            rounded = {str(size): round(speed, 3) for size, speed in sizes.items()}
            self._bandwidth.append([kind, list(members), operation, rounded])
            self._progress.found(self._plan.rank, self._bandwidth)
        return sizes[largest]

    def _ranks(self, nodes: tuple[int, ...]) -> list[int]:
        size = self._plan.node_size
        return [number * size + local for number in nodes for local in range(size)]

    def _libraries(self) -> dict[str, Any]:
        """What is below Python, and what NCCL's log says of the network that it chose."""
        if not self._plan.cuda:
            return {"versions": versions.native()}
        logs = Path(self._plan.logs).glob("*.log")
        network = nccl_log.read(line for path in logs for line in path.read_text().splitlines())
        return {"network": asdict(network), "versions": versions.native(network.plugin, network.libfabric)}


def _those(nodes: tuple[int, ...]) -> str:
    if len(nodes) == 1:
        return f"node {nodes[0]}"
    return f"nodes {', '.join(map(str, nodes[:-1]))} and {nodes[-1]}"
