"""The check itself: `-m trainer.health`, under torchrun or trainer.launch."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trainer import exits, versions
from trainer.health import devices, nccl_log, verdict

UNHEALTHY = 4
"""Exit status: a node is bad. Another start on the same nodes will not help."""
MIB = 1 << 20
LARGEST = {"cuda": 1024 * MIB, "cpu": 4 * MIB}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="trainer.health", description=__doc__)
    parser.add_argument("--instance-type", help="EC2 type of the nodes: sets the floors of bandwidth")
    parser.add_argument("--floor", type=float, help="GB/s between two nodes, instead of the instance type's")
    parser.add_argument(
        "--floor-within", type=float, help="GB/s within a node, instead of the instance type's"
    )
    parser.add_argument("--gpus", type=int, help="GPUs that every node must have")
    parser.add_argument(
        "--node-size", type=int, help="processes that count as one node; by default those of torchrun"
    )
    parser.add_argument("--report", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    kind = options.instance_type or ""
    floor = options.floor if options.floor is not None else verdict.FLOORS.get(kind)
    within = options.floor_within if options.floor_within is not None else verdict.FLOORS_WITHIN.get(kind)

    logs = tempfile.TemporaryDirectory(prefix="nccl-")
    os.environ |= {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET",
        "NCCL_DEBUG_FILE": f"{logs.name}/%h-%p.log",
    }
    from trainer import ranks
    from trainer.config import Limits

    with logs:
        here = ranks.join(Limits(start_seconds=300, collective_seconds=120))
        try:
            report = check(
                here, options.node_size or here.local_world, floor, within, options.gpus, Path(logs.name)
            )
        finally:
            ranks.leave()
    if here.leader:
        for line in report["problems"] or ["all nodes are fit"]:
            print(f"health: {line}", flush=True)
        if options.report:
            options.report.parent.mkdir(parents=True, exist_ok=True)
            options.report.write_text(json.dumps(report, indent=1) + "\n")
    return UNHEALTHY if report["problems"] else exits.FINISHED


def check(
    here: Any, node_size: int, floor: float | None, floor_within: float | None, gpus: int | None, logs: Path
) -> dict[str, Any]:
    """Ask, measure and judge; the same report on all processes."""
    import torch.distributed as dist

    from trainer.health.sweep import measure

    nodes, node = here.world // node_size, here.rank // node_size
    largest = LARGEST[here.device.type]
    own: dict[str, Any] = {"host": socket.gethostname(), "problems": [], "bandwidth": []}

    def sweep(kind: str, sets: list[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
        """Measure sets of nodes at the same time; GB/s of the largest all-reduce, on all processes."""
        found: dict[tuple[int, ...], float] = {}
        for members in sets:  # every process has to make every group, in the same order
            within = [number * node_size + local for number in members for local in range(node_size)]
            group = dist.new_group(within)
            if node not in members or len(within) == 1:
                continue
            assert isinstance(group, dist.ProcessGroup)
            for operation in ("all_gather", "all_reduce"):
                sizes = measure(operation, [largest // 16, largest], within, group, here.device)
                rounded = {str(size): round(speed, 3) for size, speed in sizes.items()}
                own["bandwidth"].append([kind, list(members), operation, rounded])
                found[members] = sizes[largest]
        everyone: list[Any] = [None] * here.world
        dist.all_gather_object(everyone, found, group=here.counts)
        return {members: speed for one in everyone for members, speed in one.items()}

    inside = sweep("within", [(number,) for number in range(nodes)])
    between: dict[verdict.Pair, float] = {}
    while pairs := verdict.next_round(nodes, between, floor or 0.0):
        between |= {(one[0], one[1]): speed for one, speed in sweep("between", [*pairs]).items()}
    if nodes > 2:
        sweep("all", [tuple(range(nodes))])
    if here.rank % node_size == 0:
        own["problems"] += _devices(here.device.type, gpus, own)
    if here.device.type == "cuda":
        network = nccl_log.read(line for path in logs.glob("*.log") for line in path.read_text().splitlines())
        own["network"] = asdict(network)
        if here.rank % node_size == 0:
            own["problems"] += versions.native(network.plugin)
        if nodes > 1 and floor:
            own["problems"] += network.problems()

    everyone: list[Any] = [None] * here.world
    dist.all_gather_object(everyone, own, group=here.counts)
    leaders = everyone[::node_size]
    problems = [f"{one['host']}: {problem}" for one in everyone for problem in one["problems"]]
    hosts = [one["host"] for one in leaders]
    for (number,), speed in sorted(inside.items()):
        if floor_within and speed < floor_within:
            where = verdict.names([number], hosts)
            problems.append(f"{where}: {speed:.1f} GB/s within the node, floor {floor_within}")
    if floor:
        problems += _slow(between, floor, hosts)
    return {
        "problems": sorted(set(problems)),
        "floor": floor,
        "floor_within": floor_within,
        "pairs": [[*pair, round(speed, 3)] for pair, speed in sorted(between.items())],
        "nodes": leaders,
    }


def _slow(between: dict[verdict.Pair, float], floor: float, hosts: list[str]) -> list[str]:
    """Sentences that name nodes and connections."""
    found = verdict.judge(between, floor)

    def speeds(nodes: list[int]) -> str:
        own = {pair: speed for pair, speed in sorted(between.items()) if {*pair} & {*nodes}}
        return ", ".join(f"{a}-{b}: {speed:.1f}" for (a, b), speed in own.items())

    lines = []
    if found.bad:
        lines.append(f"slow with nodes that are fast with others: {verdict.names(found.bad, hosts)}; "
                     f"GB/s {speeds(found.bad)}, floor {floor}")  # fmt: skip
    if found.doubtful:
        lines.append(f"too slow, all with each other: {verdict.names(found.doubtful, hosts)}; "
                     f"GB/s {speeds(found.doubtful)}, floor {floor}")  # fmt: skip
    lines += [
        f"the connection of {verdict.names(pair, hosts)} is slow, though both are fast with others: "
        f"{between[pair]:.1f} GB/s, floor {floor}"
        for pair in found.links
    ]
    return lines


def _devices(kind: str, gpus: int | None, own: dict[str, Any]) -> list[str]:
    if kind != "cuda":
        return [f"{gpus} GPUs were expected, and none is visible"] if gpus else []
    try:
        found = devices.ask()
    except Exception as error:
        return [f"nvidia-smi does not answer: {error}"]
    own["devices"] = [asdict(device) for device in found]
    problems = [problem for device in found for problem in device.problems()]
    faults = devices.faults()
    own["xid"] = None if faults is None else [asdict(fault) for fault in faults]
    problems += [str(fault) for fault in faults or [] if fault.hardware]
    if gpus and len(found) != gpus:
        problems.append(f"{gpus} GPUs were expected, {len(found)} are visible")
    return problems


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
