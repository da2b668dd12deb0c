"""`python -m torch.distributed.run … -m trainer --config JOB.yaml [--set a.b=c …]`

The job file is checked, and a finished job is recognised, before torch is imported: both take a second.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from pathlib import Path

from trainer import config, exits, summary


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="trainer", description=__doc__)
    parser.add_argument("--config", required=True, type=Path, help="job file (YAML)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="a.b=c", help="override one value of the job file"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    leader = os.environ.get("RANK", "0") == "0"
    try:
        options = parse(arguments)
        job = config.load(options.config, options.set)
        if summary.finished(job):
            if leader:
                print(
                    f"{job.name}: finished earlier, nothing to do ({job.output / summary.FILE})", flush=True
                )
            return exits.FINISHED
        from trainer.signals import Stop, hold_profile

        hold_profile()
        stop = Stop()
        from trainer.run import run

        return run(job, stop)
    except exits.Failure as failure:
        if failure.status != exits.CONFIG or leader:  # a wrong file is wrong for everybody: say it once
            print(f"{_who()}: {failure}", file=sys.stderr, flush=True)
        return failure.status
    except Exception as error:
        traceback.print_exc()
        print(f"{_who()}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return exits.RETRY


def _who() -> str:
    rank = os.environ.get("RANK")
    return f"trainer: rank {rank} on host {os.uname().nodename}" if rank is not None else "trainer"


if __name__ == "__main__":
    exits.at_once(main(sys.argv[1:]))
