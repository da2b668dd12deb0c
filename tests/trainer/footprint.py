"""What the kernel counts for real processes of the trainer, while they load a model and train.

    python -m tests.trainer.footprint PLAN.json RESULTS.json

PLAN.json is {number of processes: job file}. Everything is imported once; each group of processes is forked from that,
so that what a process holds before it builds its model is the same for all and can be subtracted. Counted is anonymous
memory: pages of files that are read through a mapping are the kernel's cache, which it drops when it needs the room.
Needs MALLOC_MMAP_THRESHOLD_ in its environment, so that freed memory goes back at once.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import safetensors.torch  # noqa: F401
import torch
import torch.distributed.checkpoint.hf_storage
import transformers.models.llama.modeling_llama  # noqa: F401
from torch.optim.optimizer import register_optimizer_step_post_hook

from tests.ports import free_port
from trainer import building, config, ranks, run
from trainer.signals import Stop

STEPS = 2


class Enough(BaseException):
    """Passes by everything that handles an Exception."""


def anonymous() -> int:
    """Bytes of this process that are backed by no file."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


class Watcher:
    """The highest value since the last `reset`, looked at every millisecond."""

    def __init__(self) -> None:
        self.highest = 0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            self.highest = max(self.highest, anonymous())
            time.sleep(0.001)

    def reset(self) -> int:
        highest, self.highest = max(self.highest, anonymous()), 0
        return highest


def measure(job: config.Job) -> dict[str, int]:
    found: dict[str, int] = {}
    watcher = Watcher()
    build: Callable[..., Any] = building.build

    def measured(*arguments: Any) -> Any:
        gc.collect()
        before = found["before"] = anonymous()
        watcher.reset()
        built = build(*arguments)
        found["loading"] = watcher.reset() - before
        found["loaded"] = anonymous() - before
        return built

    def stepped(*_: Any) -> None:
        found["steps"] = found.get("steps", 0) + 1
        found["stepping"] = watcher.reset() - found["before"]
        found["stepped"] = anonymous() - found["before"]
        if found["steps"] == STEPS:
            raise Enough

    building.build = measured
    register_optimizer_step_post_hook(stepped)
    here = ranks.join(job.limits)
    try:
        run.phases(job, here, Stop())
    except Enough:
        return found
    raise AssertionError("the job ended before its time")


def group(world: int, file: Path) -> list[dict[str, int]]:
    """Run a job on so many processes; what each of them counted."""
    port = free_port()
    results = [file.with_suffix(f".rank{rank}") for rank in range(world)]
    children = []
    for rank in range(world):
        child = os.fork()
        if child:
            children.append(child)
            continue
        os.environ |= {
            "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        }  # fmt: skip
        try:
            results[rank].write_text(json.dumps(measure(config.load(file))))
            os._exit(0)
        except BaseException as error:
            print(f"rank {rank} of {world}: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(statuses):
        raise SystemExit(f"{world} processes ended with {statuses}")
    return [json.loads(result.read_text()) for result in results]


if __name__ == "__main__":
    assert "MALLOC_MMAP_THRESHOLD_" in os.environ
    torch.set_num_threads(1)
    plan = json.loads(Path(sys.argv[1]).read_text())
    found = {world: group(int(world), Path(file)) for world, file in plan.items()}
    Path(sys.argv[2]).write_text(json.dumps(found))
