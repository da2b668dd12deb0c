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
    norms,
    products,
    ranks,
    recompute,
    shapes,
    sharding,
    swiglu,
    tensor,
    weights,
)
from trainer import model as models
from trainer.config import Job


def build(job: Job, here: ranks.Ranks, layout: mesh.Layout) -> tuple[nn.Module, float, int]:
    """The sharded model with its weights, its FLOPs per token and its number of parameters."""
    model = shape(job, here.device, layout)
    models.materialise(model, torch.device("cpu") if job.parallel.cpu_offload else here.device)
    if job.model.huggingface is not None:
        weights.load(model, job.model.huggingface, here.saving)
    else:
        models.initialise(model, job.model.initial_deviation, job.seed)
    sizes = shapes.of(job.model)
    return model, flops.of_shape(sizes, job.model.sequence), sizes.parameters


def shape(job: Job, device: torch.device, layout: mesh.Layout) -> nn.Module:
    """The sharded model without memory. Raises exits.Failure with status CONFIG where it can't be split as asked.

    The order matters: loss, float8, tensor parallelism, recomputation, compilation, sharding, each around the one
    before; memory comes last.
    """
    model = models.build(models.shape(job.model))
    tensor.check(job.parallel, shapes.of(job.model), job.model.sequence)
    attention.apply(model, layout.context_group)
    loss.apply(model, layout.context_rank)
    norms.apply(model)
    swiglu.apply(model)
    float8.apply(model, job.precision, device, layout.tensor)
    if layout.tensors is not None:
        tensor.apply(model, layout.tensors)
    else:
        products.apply(model, device)
    recompute.apply(model, job.recompute)
    if job.compile:
        compiling.apply(model)
    sharding.apply(model, job.parallel, job.precision, layout.shards)
    return model
