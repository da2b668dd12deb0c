"""torch.profiler for a few steps: as the job file says (`metrics.profile`), or when a signal asks (SIGUSR1).

The loop carries the request to all processes, so all record the same steps. Each writes a trace for chrome://tracing
or ui.perfetto.dev to `profiles/step-NNNNNNNN-rank-R.json.gz` in the output folder.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import profiler

from trainer.config import Job
from trainer.ranks import Ranks

STEPS = 3
"""Recorded when a signal asks and the job file doesn't say how many."""


class Profiler:
    """At most one recording at a time."""

    def __init__(self, job: Job, ranks: Ranks, say: Callable[[str], None]) -> None:
        self._window, self._ranks, self._say = job.metrics.profile, ranks, say
        self._folder = job.output / "profiles"
        self._recording: profiler.profile | None = None
        self._first = self._last = 0

    def before(self, step: int, asked: bool) -> None:
        """Called as each step begins; `asked` is the same on all processes."""
        if self._recording and step > self._last:
            self.stop()
        if not self._recording and (asked or (self._window and step == self._window.begin)):
            self._first = step
            self._last = step + (self._window.steps if self._window else STEPS) - 1
            activities = [profiler.ProfilerActivity.CPU]
            if self._ranks.device.type == "cuda":
                activities.append(profiler.ProfilerActivity.CUDA)
            self._recording = profiler.profile(activities=activities, record_shapes=True)
            self._recording.start()

    def stop(self) -> None:
        """End a recording and write it. A trace that can't be written is not worth a job."""
        if self._recording is None:
            return
        recording, self._recording = self._recording, None
        file = self._folder / f"step-{self._first:08d}-rank-{self._ranks.rank}.json.gz"
        try:
            recording.stop()
            self._folder.mkdir(parents=True, exist_ok=True)
            recording.export_chrome_trace(str(file))
        except (OSError, RuntimeError) as error:
            self._say(f"step {self._last}: no profile: {error}")
        else:
            self._say(f"steps {self._first} to {self._last} are profiled in {self._folder}")
