"""One long-lived group of processes that runs many jobs: starting Python and torch costs more than training.

    torchrun … -m tests.trainer.group JOBS.json      (conftest.py has forge.py start it instead)

JOBS.json is a list of {"job": file, "faults": {…}}. `file_bytes` makes every larger file impossible to write once the
data is prepared, as a full disk does; `poison` makes one process's loss infinite in that step; `broken_data` makes
one process fail to open its data; `slow` makes one process's first block take so many seconds more; `ask` sends that
process SIGUSR1 in that step; `forget` removes what an earlier run of the job kept after that step; `copy_seconds`
makes the copy for a background save take so much longer; `late` makes one process's clock for saves leap ahead by a
day in each of those steps; `count` writes what the passes of so many steps asked of other processes to
`collectives.json`; `own_node` has each process on a node of its own. Each process writes its statuses to a file of
its own.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.staging import DefaultStager

from trainer import building, config, exits, loop, ranks, summary
from trainer import model as models
from trainer import optimiser as optimisers
from trainer.checkpoint import saving
from trainer.checkpoint.store import Store
from trainer.data import opening
from trainer.data.batches import Micro
from trainer.files import write_atomically
from trainer.run import phases
from trainer.signals import Stop

DAY = 86400.0


@contextmanager
def injected(
    here: ranks.Ranks,
    job: config.Job,
    *,
    file_bytes: int = -1,
    poison: int = 0,
    broken_data: bool = False,
    slow: float = 0.0,
    ask: int = 0,
    forget: int | None = None,
    copy_seconds: float = 0.0,
    copy_fails: bool = False,
    late: Sequence[int] = (),
    count: int = 0,
) -> Iterator[None]:
    """Real faults, in a real process, for the time of one job."""
    forward, opened, folders, build = loop.forward, opening.opened, opening.folders, building.build
    copy, clock = DefaultStager._stage, saving.time
    days = 0
    mine = here.rank == here.world - 1

    def copied(*arguments: Any, **keywords: Any) -> Any:
        time.sleep(copy_seconds)
        if copy_fails and mine:
            raise MemoryError("no pinned memory left")
        return copy(*arguments, **keywords)

    def poisoned(state: loop.Run, micro: Micro, over: int) -> torch.Tensor:
        nonlocal days
        days = sum(step <= state.step + 1 for step in late)
        loss = forward(state, micro, over)
        if mine and state.step + 1 == ask:
            os.kill(os.getpid(), signal.SIGUSR1)
        return loss * math.inf if mine and state.step + 1 == poison else loss

    def broken(*_: object) -> Any:
        raise exits.Failure("the disk with the data is gone")

    def then_full(*arguments: Any) -> list[str]:
        found = folders(*arguments)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))
        return found

    def dragged(*arguments: Any) -> Any:
        model, *others = build(*arguments)
        attention = models.blocks(model)[0].get_submodule("self_attn")
        quick = attention.forward

        def forward(*arguments: Any, **keywords: Any) -> Any:
            time.sleep(slow)
            return quick(*arguments, **keywords)

        attention.forward = forward
        return model, *others

    loop.forward, opening.folders = poisoned, then_full
    if broken_data and mine:
        opening.opened = broken
    if copy_seconds or copy_fails:
        DefaultStager._stage = copied  # type: ignore[method-assign]
    if late and mine:
        saving.time = SimpleNamespace(monotonic=lambda: clock.monotonic() + days * DAY)
    if slow and mine:
        building.build = dragged
    if forget is not None and here.leader:
        store = Store(job.output / "checkpoints")
        for step in store.steps():
            if step > forget:
                shutil.rmtree(store.path(step))
        (job.output / summary.FILE).unlink()
    try:
        with counted(job.output, count) if count else nullcontext():
            yield
    finally:
        loop.forward, opening.opened, opening.folders = forward, opened, folders
        building.build = build
        DefaultStager._stage = copy  # type: ignore[method-assign]
        saving.time = clock
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextmanager
def counted(output: Path, count: int) -> Iterator[None]:
    """Count collectives between the agreement at the beginning of a step and the norm of its gradient."""
    from torch.distributed.tensor.debug import CommDebugMode

    agree, clip = loop.Run.agree, optimisers.clip
    steps: list[dict[str, int]] = []
    passes = ExitStack()

    def agreed(*arguments: Any) -> Any:
        result = agree(*arguments)
        if len(steps) < count:
            mode = passes.enter_context(CommDebugMode())
            passes.callback(lambda: steps.append({str(k): v for k, v in mode.get_comm_counts().items()}))
        return result

    def clipped(*arguments: Any) -> float:
        passes.close()
        return clip(*arguments)

    loop.Run.agree, optimisers.clip = agreed, clipped  # type: ignore[method-assign]
    try:
        yield
    finally:
        loop.Run.agree, optimisers.clip = agree, clip  # type: ignore[method-assign]
    if dist.get_rank() == 0:
        (output / "collectives.json").write_text(json.dumps(steps))


def forget_compiled(output: Path | None) -> None:
    """So that the next job compiles its own, as in a process of its own. What there was goes to `graphs.json`."""
    import torch._dynamo  # seconds, that other groups needn't wait
    from torch._dynamo.utils import counters

    if output is not None:
        (output / "graphs.json").write_text(json.dumps(counters["stats"]))
    counters.clear()
    torch._dynamo.reset()


def main(arguments: list[str]) -> NoReturn:
    listing = Path(arguments[0])
    tasks = json.loads(listing.read_text())
    stop = Stop()
    here = ranks.join(config.load(Path(tasks[0]["job"])).limits)
    statuses: dict[str, list[object]] = {}
    for task in tasks:
        file = Path(task["job"])
        job = config.load(file)
        alone = dataclasses.replace(here, local_rank=0, local_world=1)
        place = alone if task["faults"].pop("own_node", False) else here
        with injected(place, job, **task["faults"]):
            try:
                statuses[file.stem] = [phases(job, place, stop), ""]
            except exits.Failure as failure:
                statuses[file.stem] = [failure.status, str(failure)]
        if job.compile:
            forget_compiled(job.output if here.leader else None)
    write_atomically(listing.with_suffix(f".rank{here.rank}"), json.dumps(statuses))
    exits.at_once(0)  # as the trainer itself ends


if __name__ == "__main__":
    main(sys.argv[1:])
