"""FSDP2 applied to a plain model from outside: which processes share parameters, and when they are gathered.
(mesh.py has the processes of each copy; tensor.py has split the matrices before.)

FULL_SHARD     parameters, gradients and optimiser state are spread over all processes
SHARD_GRAD_OP  the same, but gathered parameters stay until the backward pass has used them
HYBRID_SHARD   spread within groups of `shard_size` processes (one node, by default), copies across groups
NO_SHARD       a whole copy on each process; gradients are added up
"""

from __future__ import annotations

import warnings

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, OffloadPolicy, fully_shard

from trainer import gloo
from trainer import precision as precisions
from trainer.config import Parallel, Precision
from trainer.model import blocks, tied


def apply(model: nn.Module, parallel: Parallel, precision: Precision, mesh: DeviceMesh) -> None:
    """Shard every block by itself, then what is left: the embedding, and the last norm with the output layer.

    The last pair, and the last block, are needed again as soon as the backward pass begins, so they are never given
    back in between.
    Gradients are plain sums: the loss already carries its weight (see loop.py).
    """
    on_gloo = mesh.device_type == "cpu"
    offload = CPUOffloadPolicy(pin_memory=not on_gloo) if parallel.cpu_offload else OffloadPolicy()
    policy = precisions.policy(precision)
    give_back = parallel.strategy in ("FULL_SHARD", "HYBRID_SHARD")

    def shard(module: nn.Module | list[nn.Module], reshard: bool) -> None:
        fully_shard(
            module, mesh=mesh, reshard_after_forward=reshard, mp_policy=policy, offload_policy=offload
        )

    # Of the embedding's output under tensor parallelism; nothing here changes it in place.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    layers = blocks(model)
    for layer in layers:
        shard(layer, give_back and layer is not layers[-1])
    if not tied(model):  # tied, both ends share a matrix and have to live in one unit: the root's
        embedding = model.get_submodule("model.embed_tokens")
        shard(embedding, give_back)
        assert isinstance(embedding, FSDPModule)
        embedding.set_unshard_in_backward(False)  # its gradient needs the token numbers, not the matrix
        shard([model.get_submodule("model.norm"), model.get_submodule("lm_head")], False)
    shard(model, give_back)

    for unit in units(model):
        unit.set_gradient_divide_factor(1.0)
        unit.set_force_sum_reduction_for_comms(
            True
        )  # gloo has no scaled sum, and averaged wrongly before torch 2.11
        if on_gloo:
            unit.set_custom_all_gather(gloo.AllGather())
            unit.set_custom_reduce_scatter(gloo.ReduceScatter())
    if parallel.prefetch > 1 or on_gloo:  # a GPU's streams gather one block ahead by themselves
        _prefetch(layers, parallel.prefetch)


def units(model: nn.Module) -> list[FSDPModule]:
    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def accumulate(model: nn.Module, parallel: Parallel, *, last: bool) -> None:
    """Before each pass of a step: how far its gradient travels."""
    assert isinstance(model, FSDPModule)
    if parallel.accumulate == "whole":
        model.set_requires_gradient_sync(last)
    elif parallel.strategy in ("HYBRID_SHARD", "NO_SHARD"):
        model.set_requires_all_reduce(last)


def reshard(model: nn.Module) -> None:
    """Give back parameters that a forward pass without a backward pass left gathered."""
    for unit in units(model):
        unit.reshard()


def _prefetch(layers: list[nn.Module], ahead: int) -> None:
    for place, layer in enumerate(layers):
        assert isinstance(layer, FSDPModule)
        layer.set_modules_to_forward_prefetch(layers[place + 1 : place + 1 + ahead])
        layer.set_modules_to_backward_prefetch(layers[max(0, place - ahead) : place][::-1])
