"""When to save, and what happens when a save fails."""

from __future__ import annotations

import time

from trainer import exits
from trainer.checkpoint.sharded import Checkpoints
from trainer.config import Job
from trainer.report import Report
from trainer.votes import Lost


class Saver:
    """Saves by steps and by the clock. A failed save is reported and tried again at the next occasion: training is
    worth more than one checkpoint. Only the last one of the job must succeed."""

    def __init__(self, job: Job, checkpoints: Checkpoints, report: Report) -> None:
        self._job, self._checkpoints, self._report = job, checkpoints, report
        self._last_time = time.monotonic()
        self._failed = False

    def due(self, step: int) -> bool:
        """By the step alone, so all processes agree without asking. A failed save makes the next step due."""
        every = self._job.checkpoint.every
        return step == self._job.steps or (bool(every) and step % every == 0)

    def overdue(self) -> bool:
        """By this process's clock: the loop asks all of them."""
        minutes = self._job.checkpoint.minutes
        return minutes is not None and time.monotonic() - self._last_time > 60 * minutes

    def save(self, step: int, *, required: bool = False) -> None:
        """Save now. Raises exits.Failure if that fails and the checkpoint is required, or if a process is lost."""
        try:
            seconds = self._checkpoints.save(step)
        except Lost:
            raise
        except exits.Failure as failure:
            self._report.save_failed(step, str(failure))
            if required or step == self._job.steps:
                raise
        else:
            self._report.saved(step, seconds)
        self._last_time = time.monotonic()

    def finish(self) -> None:
        """Wait for whatever is still being written."""
