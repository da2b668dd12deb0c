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

from trainer import exits
from trainer.health import devices, nccl_log, verdict

UNHEALTHY = 4
"""Exit status: a node is bad. Another start on the same nodes will not help."""
MIB = 1 << 20
LARGEST = {"cuda": 1024 * MIB, "cpu": 4 * MIB}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="trainer.health", description=__doc__)
    parser.add_argument(
        "--instance-type", help="EC2 type of the nodes: sets the number of GPUs' floor of bandwidth"
    )
    parser.add_argument("--floor", type=float, help="GB/s between two nodes, instead of the instance type's")
    parser.add_argument("--gpus", type=int, help="GPUs that every node must have")
    parser.add_argument(
        "--node-size", type=int, help="processes that count as one node; by default those of torchrun"
    )
    parser.add_argument("--report", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    floor = options.floor if options.floor is not None else verdict.FLOORS.get(options.instance_type or "")

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
            report = check(here, options.node_size or here.local_world, floor, options.gpus, Path(logs.name))
        finally:
            ranks.leave()
    if here.leader:
        for line in report["problems"] or ["all nodes are fit"]:
            print(f"health: {line}", flush=True)
        if options.report:
            options.report.parent.mkdir(parents=True, exist_ok=True)
            options.report.write_text(json.dumps(report, indent=1) + "\n")
    return UNHEALTHY if report["problems"] else exits.FINISHED


def check(here: Any, node_size: int, floor: float | None, gpus: int | None, logs: Path) -> dict[str, Any]:
    """Ask, measure and judge; the same report on all processes."""
    import torch.distributed as dist

    from trainer.health.sweep import measure

    nodes, node = here.world // node_size, here.rank // node_size
    largest = LARGEST[here.device.type]
    groups: list[tuple[str, tuple[int, ...]]] = [("within", (number,)) for number in range(nodes)]
    for pairs in verdict.rounds(nodes):
        groups += [("between", pair) for pair in pairs]

    own: dict[str, Any] = {"host": socket.gethostname(), "problems": [], "bandwidth": []}
    for kind, members in groups:  # every process has to make every group, in the same order
        within = [number * node_size + local for number in members for local in range(node_size)]
        group = dist.new_group(within)
        if node in members and len(within) > 1:
            assert isinstance(group, dist.ProcessGroup)
            for operation in ("all_reduce", "all_gather"):
                sizes = [largest // 16, largest]
                found = measure(operation, sizes, within, group, here.device)
                own["bandwidth"].append(
                    [kind, list(members), operation, {str(s): round(b, 3) for s, b in found.items()}]
                )
    if here.rank % node_size == 0:
        own["problems"] += _devices(here.device.type, gpus, own)
    if here.device.type == "cuda":
        network = nccl_log.read(line for path in logs.glob("*.log") for line in path.read_text().splitlines())
        own["network"] = asdict(network)
        if nodes > 1 and floor:
            own["problems"] += network.problems()

    everyone: list[Any] = [None] * here.world
    dist.all_gather_object(everyone, own, group=here.counts)
    leaders = everyone[::node_size]
    problems = [f"{one['host']}: {problem}" for one in everyone for problem in one["problems"]]
    between = {
        (first, second): sizes[str(largest)]
        for one in leaders
        for kind, (first, *rest), operation, sizes in one["bandwidth"]
        if kind == "between" and operation == "all_reduce"
        for second in rest
    }
    hosts = [one["host"] for one in leaders]
    if floor and (bad := verdict.suspects(between, floor)):
        speeds = ", ".join(
            f"{a}-{b}: {speed:.1f}" for (a, b), speed in sorted(between.items()) if a in bad or b in bad
        )
        problems.append(
            f"too slow with every neighbour: {verdict.names(bad, hosts)}; GB/s {speeds}, floor {floor}"
        )
    return {"problems": sorted(set(problems)), "floor": floor, "nodes": leaders}


def _devices(kind: str, gpus: int | None, own: dict[str, Any]) -> list[str]:
    if kind != "cuda":
        return [f"{gpus} GPUs were expected, and none is visible"] if gpus else []
    try:
        found = devices.ask()
    except Exception as error:
        return [f"nvidia-smi does not answer: {error}"]
    own["devices"] = [asdict(device) for device in found]
    problems = [problem for device in found for problem in device.problems()]
    if gpus and len(found) != gpus:
        problems.append(f"{gpus} GPUs were expected, {len(found)} are visible")
    return problems


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
