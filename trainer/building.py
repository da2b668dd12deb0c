"""The model as the job wants it: everything that is applied to a plain one from outside, in its order."""

from __future__ import annotations

import torch
from torch import nn

from trainer import (
    attention,
    compiling,
    float8,
    flops,
    loss,
    mesh,
    ranks,
    recompute,
    shapes,
    sharding,
    tensor,
    weights,
)
from trainer import model as models
from trainer.config import Job


def build(job: Job, here: ranks.Ranks, layout: mesh.Layout) -> tuple[nn.Module, float, int]:
    """The sharded model with its weights, its FLOPs per token and its number of parameters.

    The order matters: loss, float8, tensor parallelism, recomputation, compilation, sharding, each around the one
    before; memory comes last.
    """
    config, shape = models.shape(job.model), shapes.of(job.model)
    model = models.build(config)
    per_token = flops.of_shape(shape, job.model.sequence)
    tensor.check(job.parallel, shape, job.model.sequence)
    attention.apply(model, layout.context_group)
    loss.apply(model, layout.context_rank)
    float8.apply(model, job.precision, here.device, layout.tensor)
    if layout.tensors is not None:
        tensor.apply(model, layout.tensors)
    recompute.apply(model, job.recompute)
    if job.compile:
        compiling.apply(model)
    sharding.apply(model, job.parallel, job.precision, layout.shards)
    models.materialise(model, torch.device("cpu") if job.parallel.cpu_offload else here.device)
    if job.model.huggingface is not None:
        weights.load(model, job.model.huggingface, here.saving)
    else:
        models.initialise(model, config.initializer_range, job.seed)
    return model, per_token, shape.parameters
