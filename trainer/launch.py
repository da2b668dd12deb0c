"""torchrun whose exit status says what the trainer's did.

    python -m trainer.launch [torchrun's options] -m trainer --config JOB.yaml

torchrun itself always ends with 1 when a process failed, so whoever restarts it cannot tell a wrong job file from a
lost node; and it starts the processes again whatever they said, `--max-restarts` times. Here a status that no other
try can change (exits.PERMANENT) ends the job at once. Everything else is torchrun's: all options and PET_ variables
work.

With a range of nodes (`--nnodes 2:16`) a job goes on with those that are left when one is lost, and with more when one
joins, each time from the newest checkpoint; that takes restarts, so `--max-restarts` is then 10 unless given. The node
that serves the rendezvous must stay: when it is lost, the others end with a status worth a retry.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection
from typing import Any

from trainer import config, exits, summary
from trainer.__main__ import parse
from trainer.signals import be_init, children, pass_profile_on


def main(arguments: list[str]) -> int:
    if "-m" in arguments and arguments[arguments.index("-m") + 1 :][:1] == ["trainer"]:
        options = parse(arguments[arguments.index("-m") + 2 :])
        try:
            job = config.load(options.config, options.set)
        except exits.Failure as failure:
            print(f"trainer: {failure}", file=sys.stderr, flush=True)
            return failure.status
        if summary.finished(job):
            print(f"{job.name}: finished earlier, nothing to do ({job.output / summary.FILE})", flush=True)
            return exits.FINISHED
        os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(job.limits.stop_seconds))

    os.environ.setdefault(
        "OMP_NUM_THREADS", "1"
    )  # quiets torchrun; the trainer sets its threads itself (ranks.py)
    if elastic(arguments):
        os.environ.setdefault("PET_MAX_RESTARTS", "10")
    pass_profile_on(children)
    no_restart_after(exits.PERMANENT)
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    try:
        torchrun(arguments)
    except ChildFailedError as error:
        _, first = error.get_first_failure()
        return first.exitcode if first.exitcode > 0 else 128 - first.exitcode
    except SignalException as signal:
        return 128 + int(signal.sigval)
    except Exception as error:  # of torchrun itself: the node with the rendezvous is gone, peers did not come
        print(f"trainer: torchrun failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return exits.RETRY
    return exits.FINISHED


def no_restart_after(statuses: Collection[int]) -> None:
    """Let torchrun's agent have no restarts left once a process of its node has ended with one of these."""
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

    monitor = LocalElasticAgent._monitor_workers

    def monitored(agent: Any, workers: Any) -> Any:
        result = monitor(agent, workers)
        if result.is_failed() and any(one.exitcode in statuses for one in result.failures.values()):
            agent._remaining_restarts = 0
        return result

    LocalElasticAgent._monitor_workers = monitored


def elastic(arguments: list[str]) -> bool:
    """Whether the number of nodes is a range whose ends differ."""
    nodes = os.environ.get("PET_NNODES", "1")
    for place, argument in enumerate(arguments):
        if argument == "-m":
            break
        name, equals, value = argument.partition("=")
        if name == "--nnodes":
            nodes = value if equals else "".join(arguments[place + 1 : place + 2])
    fewest, _, most = nodes.partition(":")
    return bool(most) and fewest != most


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        be_init()
        sys.exit(main(sys.argv[1:]))
