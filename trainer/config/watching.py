"""What is told of a run, what counts as going wrong, and how long anything is waited for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainer.config.section import Positive, Seconds, Section


class Profile(Section):
    """A window of steps that torch.profiler records."""

    begin: Positive = Field(alias="from")
    """First step of the window; `from` in the job file."""
    steps: Annotated[int, Field(gt=0, le=50, strict=True)] = 3
    """A trace grows by megabytes with every step."""


class Metrics(Section):
    """What is reported, and where."""

    every: Positive = 10
    """Steps between two log lines."""
    port: Annotated[int, Field(ge=0, le=65535)] | None = 9400
    """Prometheus port of each node's first process; null for none, 0 for any free one."""
    address: str | None = None
    """Address to listen on; by default every one inside a Kubernetes pod and loopback elsewhere."""
    peak_tflops: Annotated[float, Field(gt=0)] | None = None
    """Dense peak of one device for the MFU; by default from the table of known devices."""
    tensorboard: bool = False
    """Also write event files for TensorBoard."""
    profile: Profile | None = None
    """Record these steps with torch.profiler; at any other time SIGUSR1 asks for it."""


class Watch(Section):
    """What counts as a run gone wrong."""

    non_finite: Literal["stop", "skip", "roll_back"] = "stop"
    """A gradient that is not finite: end the job, leave the batch out, or go back to the last checkpoint and then
    leave it out."""
    non_finite_limit: Positive = 10
    """Batches that may be left out in one run before it stops."""
    spike: Annotated[float, Field(gt=1)] | None = None
    """Warn when the loss exceeds this multiple of its running median."""
    straggler: Annotated[float, Field(gt=1)] | None = 1.5
    """Warn when one process computes, or waits for data, this many times as long as the median of the others."""


class Limits(Section):
    """Bounds on waiting. A process that waits longer says for whom and ends."""

    start_seconds: Seconds = 600
    """Any phase before the first step, and the first step (kernels are compiled, pages are cold)."""
    collective_seconds: Seconds = 120
    """One collective operation after the first step."""
    save_seconds: Seconds = 900
    """One checkpoint."""
    stop_seconds: Positive = 160
    """From SIGTERM to the end of a process that doesn't end by itself, on torch 2.15 and later (30 s before). Time to
    finish the step at work and to save; keep it below the pod's grace period, which is 180."""
    threads: Positive | None = None
    """CPU threads of one process; by default its share of the CPUs that its cgroup may use."""
