"""The command itself: `-m trainer.health`, under torchrun or trainer.launch."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from pathlib import Path

from trainer import exits
from trainer.health import verdict


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
    parser.add_argument(
        "--limit", type=float, default=120, help="seconds without progress after which a measurement hangs"
    )
    parser.add_argument("--report", type=Path, help="JSON file to write")
    options = parser.parse_args(arguments)
    kind = options.instance_type
    if kind and kind not in verdict.TYPES:
        if os.environ.get("RANK", "0") == "0":
            known = ", ".join(verdict.TYPES)
            print(f"health: {kind} is no instance type known here: {known}", file=sys.stderr, flush=True)
        return exits.CONFIG
    floor = options.floor if options.floor is not None else verdict.FLOORS.get(kind)
    within = options.floor_within if options.floor_within is not None else verdict.FLOORS_WITHIN.get(kind)

    with tempfile.TemporaryDirectory(prefix="nccl-") as logs:
        os.environ |= {
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,NET",
            "NCCL_DEBUG_FILE": f"{logs}/%h-%p.log",
        }
        from trainer.health.check import Check, Terms
        from trainer.health.worker import Worker

        worker = Worker()
        try:
            terms = Terms(kind, floor, within, options.gpus, options.limit, options.node_size)
            return Check(worker, terms, logs, options.report).run()
        except Exception as error:
            traceback.print_exc()
            print(f"health: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return exits.RETRY
        finally:
            worker.kill()


if __name__ == "__main__":
    exits.at_once(main(sys.argv[1:]))
