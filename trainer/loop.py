"""One training step, from top to bottom.

Everything that shapes the step from outside (sharding, precision, recomputation, compilation) was applied to the
model before; here it is a plain module. `train` runs until the last step or until somebody asks for the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn

from trainer import loss as losses
from trainer import optimiser as optimisers
from trainer import schedule, sharding
from trainer.checkpoint.saving import Saver
from trainer.config import Job
from trainer.data.batches import Batches, Micro
from trainer.ranks import Ranks
from trainer.report import Report, Stopwatch
from trainer.signals import Stop
from trainer.watch import Watch


@dataclass
class Run:
    """A run in motion: its parts, and the last step that is done."""

    job: Job
    ranks: Ranks
    model: nn.Module
    optimiser: torch.optim.Optimizer
    training: Batches
    held_out: Batches | None
    saver: Saver
    report: Report
    watch: Watch
    stop: Stop
    step: int = 0
    clock: Stopwatch = field(default_factory=Stopwatch)
    loss_sum: torch.Tensor = field(init=False)
    """Of this process, on its device, since the last report."""

    def __post_init__(self) -> None:
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=self.ranks.device)

    def agree(self, targets: int, stopping: bool, overdue: bool) -> tuple[int, bool, bool]:
        """Sum of the targets over all processes, and whether any of them wants to stop or to save."""
        numbers = torch.tensor([targets, stopping, overdue], dtype=torch.int64)
        dist.all_reduce(numbers, group=self.ranks.counts)
        return int(numbers[0]), bool(numbers[1]), bool(numbers[2])

    def mean_loss(self) -> float:
        """Mean loss, nats per token, over all processes and all steps since the last call."""
        total = self.loss_sum.clone()
        dist.all_reduce(total)
        self.loss_sum.zero_()
        return float(total) / max(1, self.clock.tokens)


def train(run: Run) -> bool:
    """Train up to the job's last step; False if a signal asked for an earlier end. A checkpoint is there either way."""
    job, clock = run.job, run.clock
    while run.step < job.steps:
        step = run.step + 1
        torch.manual_seed(
            job.seed * 1_000_003 + step
        )  # whatever draws numbers in a step draws the same after a restart

        # The batch of this step, and how many targets all processes have in it. The same sum tells whether anybody
        # was asked to stop, so that all stop after the same step.
        with clock("data"):
            micros = run.training.step(step, job.batch.sequences, job.seed)
            targets, stopping, overdue = run.agree(
                sum(micro.counted for micro in micros), run.stop.requested, run.saver.overdue()
            )

        # Forward and backward, one micro batch at a time. Gradients add up, between passes and between processes;
        # dividing by all targets here makes the sum the gradient of the mean loss over the whole batch.
        with clock("passes"):
            for number, micro in enumerate(micros, start=1):
                sharding.accumulate(run.model, last=number == len(micros))
                loss = forward(run, micro)
                (loss / targets).backward()
                run.loss_sum += loss.detach()

        # The norm is of the whole gradient, over all shards, so every process sees the same value and decides alike.
        with clock("update"):
            norm = clip(run.model, job.optimiser.clip)
            rate = schedule.rate(step, job.steps, job.optimiser.learning_rate, job.schedule)
            optimisers.set_rate(run.optimiser, rate)
            if run.watch.usable(step, norm):
                run.optimiser.step()
            run.optimiser.zero_grad(set_to_none=True)
        run.step = step
        clock.count(targets)

        if step % job.metrics.every == 0 or step == job.steps or stopping:
            run.report.step(step, loss=run.mean_loss(), norm=norm, rate=rate, clock=clock)
        if evaluation_due(job, step):
            run.report.held_out(step, evaluate(run))
        if run.saver.due(step) or overdue or stopping:
            with clock("save"):
                run.saver.save(step)
        if stopping and step < job.steps:
            run.saver.finish()
            return False
    run.saver.finish()
    return True


def forward(run: Run, micro: Micro) -> torch.Tensor:
    """Summed loss of one micro batch: a float32 scalar on the device."""
    inputs = micro.inputs.to(run.ranks.device, non_blocking=True)
    targets = micro.targets.to(run.ranks.device, non_blocking=True)
    return losses.summed(run.model(input_ids=inputs, use_cache=False).logits, targets)


def clip(model: nn.Module, limit: float | None) -> float:
    """Scale the gradient down to norm `limit` where it is longer; returns its norm before that."""
    norm = nn.utils.clip_grad_norm_(
        model.parameters(), float("inf") if limit is None else limit, foreach=True
    )
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


@torch.no_grad()
def evaluate(run: Run) -> float:
    """Mean loss, nats per token, over the same held-out windows each time."""
    assert run.held_out is not None
    total = torch.zeros(2, dtype=torch.float64, device=run.ranks.device)
    run.model.eval()
    for micro in run.held_out.evenly(run.job.evaluate.sequences):
        total[0] += forward(run, micro)
        total[1] += micro.counted
    run.model.train()
    sharding.reshard(run.model)
    dist.all_reduce(total)
    return float(total[0] / total[1])


def evaluation_due(job: Job, step: int) -> bool:
    if not job.evaluate.sequences:
        return False
    return step == job.steps or (bool(job.evaluate.every) and step % job.evaluate.every == 0)
