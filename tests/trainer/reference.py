"""The same training without anything of ours but the data and the initial weights.

A plain `transformers` model in one process, its own loss, the whole batch at once, PyTorch's unfused AdamW:
what every strategy, precision and number of processes has to reproduce.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM

from trainer import model as models
from trainer.config import Job
from trainer.data import batches, shards
from trainer.schedule import rate


@dataclass
class Curve:
    losses: list[float]
    norms: list[float]
    weights: dict[str, torch.Tensor]


def train(job: Job, data: Path, start: nn.Module | None = None) -> Curve:
    """From `start`, or from the job's model with the weights that the trainer draws."""
    torch.set_num_threads(1)
    model = start
    if model is None:
        model = AutoModelForCausalLM.from_config(models.shape(job.model), dtype=torch.float32)
        models.initialise(model, job.model.initial_deviation, job.seed)
    stream = shards.Stream(data, shards.read_index(data), shards.TRAIN)
    reader = batches.Batches(stream, job.model.sequence, rank=0, world=1, micro=job.batch.sequences)
    settings = job.optimiser
    optimiser = torch.optim.AdamW(
        [
            {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": settings.weight_decay},
            {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0},
        ],
        betas=(settings.beta1, settings.beta2),
        eps=settings.epsilon,
        foreach=False,
        fused=False,
    )
    losses, norms = [], []
    for step in range(1, job.steps + 1):
        (batch,) = reader.step(step, job.batch.sequences, job.seed)
        output = model(input_ids=batch.inputs, labels=batch.inputs, shift_labels=batch.targets)
        output.loss.backward()
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), settings.clip or float("inf"))))
        for group in optimiser.param_groups:
            group["lr"] = rate(step, job.steps, settings.learning_rate, job.schedule)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(output.loss.detach()))
    return Curve(losses, norms, {name: value.detach() for name, value in model.state_dict().items()})
