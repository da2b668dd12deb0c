"""One training step, from top to bottom.

Everything that shapes the step from outside (sharding, precision, recomputation, compilation) was applied to the
model before; here it is a plain module. `train` runs until the last step or until somebody asks for the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn

from trainer import context, exits, schedule, sharding
from trainer import optimiser as optimisers
from trainer.checkpoint.saving import Saver
from trainer.config import Job
from trainer.data.ahead import Ahead
from trainer.data.batches import Batches, Micro
from trainer.mesh import Layout
from trainer.profiling import Profiler
from trainer.ranks import Ranks, shorten
from trainer.report import Report
from trainer.signals import Stop
from trainer.stopwatch import Stopwatch
from trainer.watch import Verdict, Watch

AFTER = ("evaluate", "save")
"""Parts that come when a step is done."""


@dataclass(frozen=True)
class Agreed:
    """What the processes agreed on at the beginning of a step."""

    targets: int
    """Of the whole batch."""
    stopping: bool
    """A signal reached at least one process."""
    overdue: bool
    """The last checkpoint is too old by at least one process's clock."""
    written: bool
    """Every process is through with its part of a background save."""
    profile: bool
    """A signal asked at least one process for a profile."""


@dataclass
class Run:
    """A run in motion."""

    job: Job
    ranks: Ranks
    layout: Layout
    model: nn.Module
    optimiser: torch.optim.Optimizer
    training: Ahead
    held_out: Batches | None
    saver: Saver
    report: Report
    watch: Watch
    profiler: Profiler
    stop: Stop
    step: int = 0
    """The last one that is done."""
    clock: Stopwatch = field(init=False)
    first: int = field(init=False)
    """The first step of this start: it takes longer than the others."""
    loss_sum: torch.Tensor = field(init=False)
    """Of this process, on its device, since the last report."""
    loss_targets: int = 0
    """Targets of all processes that belong to it."""

    def __post_init__(self) -> None:
        self.first = self.step + 1
        self.clock = Stopwatch(self.ranks.device)
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=self.ranks.device)

    @property
    def place(self) -> str:
        """Where this process is, or was when an error broke off: `step 7, passes`."""
        part = self.clock.place
        return f"step {self.step + (part not in AFTER)}, {part}"

    def agree(self, targets: int) -> Agreed:
        """What all processes together have for, or want of, the step that begins. One small sum between CPUs."""
        stop, saver = self.stop, self.saver
        mine = [targets * self.layout.first, stop.requested, saver.overdue(), saver.written(), stop.profile()]
        numbers = torch.tensor(mine, dtype=torch.int64)
        dist.all_reduce(numbers, group=self.ranks.counts)
        count, stopping, overdue, written, profile = numbers.tolist()
        return Agreed(count, stopping > 0, overdue > 0, written == self.ranks.world, profile > 0)

    def mean_loss(self) -> float:
        """Mean loss, nats per token, over all processes and all steps since the last call (NaN: none was used)."""
        total = self.loss_sum.clone()
        dist.all_reduce(total)
        mean = float(total) / self.layout.tensor / self.loss_targets if self.loss_targets else float("nan")
        self.loss_sum.zero_()
        self.loss_targets = 0
        return mean

    def go_back(self) -> None:
        """Return to the newest checkpoint. Raises exits.Failure if there is none."""
        back = self.saver.go_back()
        if not back:
            raise exits.Failure(f"step {self.step + 1}: there is no checkpoint to go back to", exits.DIVERGED)
        self.step = back
        self.loss_sum.zero_()
        self.loss_targets = 0
        self.report.went_back(back)


def train(run: Run) -> bool:
    """Train up to the job's last step; False if a signal asked for an earlier end. Either way it ends with a save."""
    job, clock = run.job, run.clock
    while run.step < job.steps:
        step = run.step + 1
        # Whatever is drawn at random in a step is drawn again when the step is done again after a restart.
        torch.manual_seed(job.seed * 1_000_003 + step)

        # The batch of this step, and how many targets all processes have in it. The same sum tells whether anybody
        # was asked to stop, so that all stop after the same step.
        with clock("data"):
            micros = context.parts(run.training.step(step), run.layout)
        with clock("wait"):
            agreed = run.agree(sum(micro.counted for micro in micros))
        if agreed.stopping:  # the state is that after the last step: whoever asks has no time for another
            break
        run.profiler.before(step, agreed.profile)

        # Forward and backward, one micro batch at a time. Each loss is the micro batch's part of the mean over all
        # targets of the whole batch, so that gradients add up, between passes and between processes.
        with clock("passes"):
            step_loss = torch.zeros_like(run.loss_sum)
            for number, micro in enumerate(micros, start=1):
                sharding.accumulate(run.model, job.parallel, last=number == len(micros))
                loss = forward(run, micro, max(1, agreed.targets))
                loss.backward()
                step_loss += loss.detach()

        # A save in the background copies the state beside the passes: they only read it, and the update changes it.
        with clock("save"):
            run.saver.staged()

        # The norm is of the whole gradient, over all shards, so every process sees the same value and decides alike.
        with clock("update"):
            norm = optimisers.clip(run.model, job.optimiser.clip)
            rate = schedule.rate(step, job.steps, job.optimiser.learning_rate, job.schedule)
            verdict = run.watch.gradient(step, norm)
            if verdict is Verdict.UPDATE:
                optimisers.set_rate(run.optimiser, rate)
                run.optimiser.step()
                run.loss_sum += step_loss * agreed.targets
                run.loss_targets += agreed.targets
            run.optimiser.zero_grad(set_to_none=True)
        if verdict is Verdict.GO_BACK:
            run.go_back()
            continue
        run.step = step
        clock.steps += 1
        if step == run.first:
            shorten(run.ranks, run.layout.groups, job.limits.collective_seconds)

        if step % job.metrics.every == 0 or step == job.steps:
            loss_now = run.mean_loss()
            run.watch.loss(step, loss_now)
            run.report.step(step, loss=loss_now, norm=norm, rate=rate, clock=clock)
        if evaluation_due(job, step):
            with clock("evaluate"):
                run.report.held_out(step, evaluate(run))
        if agreed.written:
            with clock("save"):
                run.saver.finish()
        if run.saver.due(step) or agreed.overdue:
            with clock("save"):
                run.saver.save(step)
    run.profiler.stop()
    with clock("save"):
        run.saver.save(run.step)
        run.saver.close()
    return run.step == job.steps


def forward(run: Run, micro: Micro, over: int) -> torch.Tensor:
    """Summed loss of one micro batch, divided by `over`: a float32 scalar on the device."""
    inputs = micro.inputs.to(run.ranks.device, non_blocking=True)
    targets = micro.targets.to(run.ranks.device, non_blocking=True)
    loss: torch.Tensor = run.model(inputs, targets, over)  # the loss itself: see loss.py
    return loss


@torch.no_grad()
def evaluate(run: Run) -> float:
    """Mean loss, nats per token, over the same held-out windows each time."""
    assert run.held_out is not None
    total = torch.zeros(2, dtype=torch.float64, device=run.ranks.device)
    run.model.eval()
    for micro in context.parts(run.held_out.evenly(run.job.evaluate.sequences), run.layout):
        total[0] += forward(run, micro, 1)
        total[1] += micro.counted
    run.model.train()
    sharding.reshard(run.model)
    dist.all_reduce(total)
    return float(total[0] / total[1].clamp(min=1))


def evaluation_due(job: Job, step: int) -> bool:
    if not job.evaluate.sequences:
        return False
    return step == job.steps or (bool(job.evaluate.every) and step % job.evaluate.every == 0)
