"""The course of a check, in the process that watches: nodes look at their devices, then workers measure, then the first
process judges and reports.

Whatever breaks off, hangs or dies meanwhile becomes a report that names it, with the status for a bad node.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed import PrefixStore

from trainer import exits, ranks, versions
from trainer.config import Limits
from trainer.health import node, verdict
from trainer.health.devices import Clock
from trainer.health.nccl_log import Network
from trainer.health.progress import SETTLE_SECONDS, Progress, Tracker
from trainer.health.worker import Plan, Worker
from trainer.pulse import Signs

MEETING_SECONDS = 300
"""Limit on the start: until all processes are there and have looked at their devices."""
SILENCE = 0.25
"""Seconds without a sign of life after which a process counts as lost, as a share of the limit on a measurement."""
PAUSE = 0.3
"""Seconds between two looks at what the workers tell."""


@dataclass(frozen=True)
class Terms:
    """What the nodes are held to."""

    instance_type: str | None
    floor: float | None
    floor_within: float | None
    gpus: int | None
    limit: float
    """Seconds without progress after which a measurement hangs."""
    node_size: int | None = None

    def unchecked(self, nodes: int, processes: int, cuda: bool) -> list[str]:
        """What is measured and held to nothing, on so many nodes of so many processes."""
        known = f"no floor is known for {self.instance_type}" if self.instance_type else "no --instance-type"
        found = []
        if nodes > 1 and not self.floor:
            found.append(f"bandwidth between nodes is not judged: {known}, and no --floor")
        if processes > 1 and not self.floor_within:
            found.append(f"bandwidth within a node is not judged: {known}, and no --floor-within")
        if cuda and nodes > 1 and not self.instance_type:
            found.append("whether NCCL uses EFA is not judged: no --instance-type")
        return found

    @property
    def silence(self) -> float:
        return SILENCE * self.limit


class Check:
    """One process's part in it."""

    def __init__(self, worker: Worker, terms: Terms, logs: str, report: Path | None) -> None:
        self._worker, self._terms, self._logs, self._file = worker, terms, logs, report
        self._leader = os.environ.get("RANK", "0") == "0"
        self._nodes: list[node.Node] = []
        self._told_to_end: float | None = None

    def _note(self, *_: object) -> None:
        self._told_to_end = self._told_to_end or time.monotonic()

    def run(self) -> int:
        """Returns the exit status."""
        self._size = self._terms.node_size or int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        first = int(os.environ.get("RANK", "0")) % self._size == 0
        own = node.look(self._size) if first else None
        limits = Limits(start_seconds=MEETING_SECONDS, collective_seconds=self._terms.silence)
        try:
            here = ranks.join(limits, gpu=False)
        except Exception as error:
            self._report([f"the processes did not meet: {str(error).splitlines()[0]}"])
            return exits.RETRY
        try:
            with here.control.phase("looking at the devices", MEETING_SECONDS):
                everyone: list[node.Node | None] = [None] * here.world
                dist.all_gather_object(everyone, own, group=here.counts)
        except exits.Failure as failure:
            self._report([str(failure)])
            return exits.UNHEALTHY
        self._nodes = [one for one in everyone if one is not None]
        problems = node.problems(self._nodes, self._terms.gpus)
        if problems:
            self._report(problems)
            return self._leave(here, exits.UNHEALTHY)
        return self._measure(here)

    def _measure(self, here: ranks.Ranks) -> int:
        """Start the worker, and wait for the leader's conclusion."""
        signal.signal(signal.SIGTERM, self._note)
        self._worker.start(
            Plan(
                here.rank, here.world, here.local_rank, self._size, self._cuda, self._terms.floor or 0.0,
                self._terms.limit, os.environ["MASTER_ADDR"], here.store.port, here.name, self._logs, dict(os.environ),
            )
        )  # fmt: skip
        progress = Progress(here.store, here.name)
        tracker = Tracker(progress, here.world, self._terms.limit, self._terms.silence)
        leader = Signs(PrefixStore(here.name, here.store))
        while True:
            time.sleep(PAUSE)
            end = self._worker.ended_by()
            if end and not progress.has_ended(here.rank):
                progress.failed(here.rank, f"its process was {end}")
            if here.leader and (status := self._conclusion(here, progress, tracker)) is not None:
                progress.conclude(status)
            if (status := progress.status()) is not None:
                self._worker.kill()
                return self._leave(here, status)
            leader.look([0])
            if leader.silent(self._terms.silence):
                print(f"health: {here.control.name(0)}, which judges, gives no sign of life", file=sys.stderr)
                return exits.RETRY
            if not here.leader and self._since_told() > self._terms.silence:
                return exits.TERMINATED

    @property
    def _cuda(self) -> bool:
        return any(one.devices for one in self._nodes)

    def _since_told(self) -> float:
        """Seconds since a signal asked for the end."""
        return time.monotonic() - self._told_to_end if self._told_to_end else 0.0

    def _conclusion(self, here: ranks.Ranks, progress: Progress, tracker: Tracker) -> int | None:
        """The status, once it is known and reported."""
        tracker.look()
        if tracker.done:
            problems = self._judged(tracker.results)
            self._report(problems, tracker.results, self._doubts(tracker.results), measured=True)
            return exits.UNHEALTHY if problems else exits.FINISHED
        if troubles := tracker.troubles():
            partial = {rank: {"bandwidth": progress.bandwidth(rank)} for rank in range(here.world)}
            self._report(
                [self._named(text, found) for text, found in troubles.items()], partial | tracker.results
            )
            return exits.UNHEALTHY
        if self._since_told() > 2 * SETTLE_SECONDS:
            lines = [self._named(text, found) for text, found in tracker.unfinished().items()]
            self._report([f"told to end by a signal; {line}" for line in lines])
            return exits.TERMINATED
        return None

    def _named(self, text: str, found: list[int]) -> str:
        """`gpu-3 (node 1), rank 8: no progress for 120 s, in within node 1: all_reduce of 65536 KiB`"""
        hosts = [one.host for one in self._nodes]
        numbers = sorted({rank // self._size for rank in found})
        processes = f"rank{'s' if len(found) > 1 else ''} {', '.join(map(str, found))}"
        return f"{verdict.names(numbers, hosts)}, {processes}: {text}"

    def _judged(self, results: dict[int, dict[str, Any]]) -> list[str]:
        """What is wrong, now that everything is measured."""
        hosts = [one.host for one in self._nodes]
        floor, floor_within = self._terms.floor, self._terms.floor_within
        problems = []
        for rank, result in results.items():
            where = hosts[rank // self._size]
            for clock in result["under_load"]:
                problems += [f"{where}: {line}" for line in Clock(**clock).problems()]
            if "network" in result and self._terms.instance_type and len(hosts) > 1:
                problems += [f"{where}: {line}" for line in Network(**result["network"]).problems()]
        problems += self._old_or_odd(self._versions(results))
        for number, speed in results[0]["within"]:
            if floor_within and speed < floor_within:
                where = verdict.names([number], hosts)
                problems.append(f"{where}: {speed:.1f} GB/s within the node, floor {floor_within}")
        if floor:
            between = {(a, b): speed for a, b, speed in results[0]["between"]}
            problems += verdict.sentences(between, floor, hosts)
        return sorted(set(problems))

    def _doubts(self, results: dict[int, dict[str, Any]]) -> list[str]:
        """What makes no node unfit."""
        pins = versions.pins()
        unlike = {line: None for found in self._versions(results) for line in versions.unlike(found, pins)}
        speed, floor = results[0]["all"], self._terms.floor
        if speed and floor and speed < floor:
            together = f"all {len(self._nodes)} nodes together reach {speed:.1f} GB/s"
            return [*unlike, f"{together}, the floor for two is {floor}"]
        return [*unlike]

    def _versions(self, results: dict[int, dict[str, Any]]) -> list[dict[str, str]]:
        """Of the libraries below Python, by node."""
        return [results[number * self._size]["versions"] for number in range(len(self._nodes))]

    def _old_or_odd(self, nodes: list[dict[str, str]]) -> list[str]:
        odd = versions.odd_ones(nodes)
        return [
            f"{verdict.names([number], [one.host for one in self._nodes])}: {line}"
            for number, found in enumerate(nodes)
            for line in [*versions.too_old(found), *odd.get(number, [])]
        ]

    def _report(
        self,
        problems: list[str],
        results: dict[int, dict[str, Any]] | None = None,
        warnings: Sequence[str] = (),
        *,
        measured: bool = False,
    ) -> None:
        """Say it and write it; the leader's only."""
        if not self._leader:
            return
        unchecked = node.unreadable(self._nodes)
        if measured:
            unchecked += self._terms.unchecked(len(self._nodes), self._size, self._cuda)
        doubts = [f"warning: {line}" for line in (*warnings, *unchecked)]
        for line in [*doubts, *(problems or [_praise(unchecked)])]:
            print(f"health: {line}", flush=True)
        if not self._file:
            return
        results = results or {}
        together = results.get(0, {}).get("all")
        report = {
            "problems": problems,
            "warnings": list(warnings),
            "unchecked": unchecked,
            "floor": self._terms.floor,
            "floor_within": self._terms.floor_within,
            "pairs": [[a, b, round(speed, 3)] for a, b, speed in results.get(0, {}).get("between", [])],
            "all": together and round(together, 3),
            "nodes": [
                {**one.facts(), "bandwidth": [], **_public(results.get(number * self._size, {}))}
                for number, one in enumerate(self._nodes)
            ],
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps(report, indent=1) + "\n")

    def _leave(self, here: ranks.Ranks, status: int) -> int:
        """Leave together: torchrun ends all others of a node as soon as one has failed."""
        try:
            with here.control.phase("ending", self._terms.silence):
                return status
        except exits.Failure:
            return status


def _praise(unchecked: list[str]) -> str:
    return "nothing is wrong with what was judged" if unchecked else "all nodes are fit"


def _public(result: dict[str, Any]) -> dict[str, Any]:
    return {key: result[key] for key in ("bandwidth", "under_load", "network", "versions") if key in result}
