"""When to save, in the background or not, and what happens when a save fails."""

from __future__ import annotations

import time
from concurrent.futures import wait

from trainer import exits
from trainer.checkpoint.sharded import Checkpoints, Writing
from trainer.config import Job
from trainer.report import Report
from trainer.votes import Lost

LONGEST = 64
"""Steps between two tries, at most."""


class Saver:
    """Saves by steps and by the clock, one checkpoint at a time.

    A failed save is reported and tried again: training is worth more than one checkpoint. Only the last one of the job
    must succeed. After each failure in a row twice as many steps pass until the next try, because a try costs time
    too, and a full disk or a storage that is away for an hour would have one after every step.
    """

    def __init__(self, job: Job, checkpoints: Checkpoints, report: Report, step: int) -> None:
        self._job, self._checkpoints, self._report = job, checkpoints, report
        self._last_time = time.monotonic()
        self.newest = step
        """Step of the newest complete checkpoint."""
        self._failures = 0
        """In a row."""
        self._again = 0
        """Step of the next try after them."""
        self._now = step
        self._writing: Writing | None = None

    def due(self, step: int) -> bool:
        """From what all processes know alike, so without asking."""
        self._now = step
        every = self._job.checkpoint.every
        again = self._failures > 0 and step >= self._again
        return step == self._job.steps or again or (bool(every) and step % every == 0)

    def overdue(self) -> bool:
        """By this process's clock: the loop asks all of them."""
        minutes = self._job.checkpoint.minutes
        return minutes is not None and time.monotonic() - self._last_time > 60 * minutes

    def written(self) -> bool:
        """Whether this process is through with a background save that waits for its commit."""
        return self._writing is not None and self._writing.files.done()

    def save(self, step: int) -> None:
        """Save the state after `step`. The last step, and whatever follows a failed background save, is waited for.

        Raises exits.Failure if the last step cannot be saved, or if a process is lost.
        """
        self.finish()
        if step == self.newest:
            return
        self._last_time = time.monotonic()
        background = self._job.checkpoint.asynchronous and step < self._job.steps
        try:
            self._writing = self._checkpoints.write(step, background=background)
        except Lost:
            raise
        except exits.Failure as failure:
            self._fail(step, failure)
        if not background:
            self.finish()

    def staged(self) -> None:
        """Wait until the state may change: a save in the background first copies it. If the copy fails, so does the
        save, and `finish` says so."""
        if self._writing is not None and self._writing.staged is not None:
            wait([self._writing.staged])

    def finish(self) -> None:
        """Wait for what is being written, and commit it. Raises as `save` does."""
        if self._writing is None:
            return
        step = self._writing.step
        try:
            took = self._checkpoints.commit(self._writing)
        except Lost:
            raise
        except exits.Failure as failure:
            self._fail(step, failure)
        else:
            self.newest, self._failures = step, 0
            self._report.saved(step, **took)
        finally:
            self._writing = None

    def close(self) -> None:
        """Bring everything to its end. Raises as `save` does."""
        self.finish()
        self._checkpoints.pruned()

    def _fail(self, step: int, failure: exits.Failure) -> None:
        self._again = self._now + min(2**self._failures, LONGEST)
        self._failures += 1
        self._report.save_failed(step, str(failure))
        if step == self._job.steps:
            raise failure

    def go_back(self) -> int:
        """Load the newest checkpoint again; returns its step, 0 if there is none."""
        self.finish()
        self.newest = self._checkpoints.load_newest()
        return self.newest
