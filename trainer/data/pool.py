"""Units of work in several processes of one machine."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from trainer import exits
from trainer.data import units
from trainer.data.places import Place
from trainer.data.plans import Plan
from trainer.data.progress import SECONDS, Meter
from trainer.data.sources import Unit
from trainer.data.tokenizers import Tokenizer


def work(
    plan: Plan, todo: Sequence[Unit], tokenizer: Tokenizer, output: Place, workers: int, meter: Meter
) -> None:
    """Do units in worker processes. After an error, those that are under way are finished, and no others begun."""
    # Forked, so that each worker has the tokenizer without importing and loading it anew.
    context = multiprocessing.get_context("fork")
    counters = context.Array("q", 3)
    with ProcessPoolExecutor(
        workers, context, initializer=_join, initargs=(plan, tokenizer, output, counters, os.getpid())
    ) as processes:
        waiting = {processes.submit(_unit, unit) for unit in todo}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=SECONDS / 4, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                meter.documents, meter.tokens, meter.bytes = counters[:]
                meter.say()
        except BrokenProcessPool:
            raise exits.Failure(
                "a worker process was killed (out of memory?); start again to go on"
            ) from None
        finally:
            processes.shutdown(wait=False, cancel_futures=True)


_job: tuple[Plan, Tokenizer, Place, Any]
"""Of a worker process."""


def _join(plan: Plan, tokenizer: Tokenizer, output: Place, counters: Any, parent: int) -> None:
    global _job
    _job = (plan, tokenizer, output, counters)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the workers are the parallelism

    def watch() -> None:
        """A worker whose parent was killed would wait for its next unit for ever."""
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(exits.RETRY)

    threading.Thread(target=watch, daemon=True).start()


def _unit(unit: Unit) -> None:
    plan, tokenizer, output, counters = _job

    def progress(*done: int) -> None:
        with counters.get_lock():
            for place_, count in enumerate(done):
                counters[place_] += count

    units.work(plan, unit, tokenizer, output, progress)
