"""Which process has which part: the mesh of all processes, and what each takes of the data.

Neighbours in rank belong to one tensor group, so that groups lie within a node, where exchange is cheapest; then come
the processes among which FSDP spreads a copy of the model, then the copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from trainer import exits
from trainer.config import Parallel


@dataclass(frozen=True)
class Layout:
    """The place of one process in the mesh."""

    mesh: DeviceMesh
    """(copies, shards, tensor), without copies where there is one, without tensor where nothing is split."""
    tensor: int
    """Processes of a tensor group. They have the same sequences, and the same loss of them."""
    context: int
    """Processes that share a sequence's tokens; they are neighbours too, a tensor group away from each other."""
    context_rank: int
    context_group: dist.ProcessGroup | None
    data_rank: int
    data_world: int
    """What has sequences of its own: a tensor group, or as many of them as share a sequence."""
    first: bool
    """Whether this process speaks for its tensor group when something is counted."""

    @property
    def shards(self) -> DeviceMesh:
        """The dimensions of FSDP: (shards,), or (copies, shards)."""
        names = tuple(name for name in self.mesh.mesh_dim_names or () if name != "tensor")
        return self.mesh[names]

    @property
    def groups(self) -> list[dist.ProcessGroup]:
        """All groups that this process exchanges anything with."""
        groups = [self.mesh.get_group(dimension) for dimension in range(self.mesh.ndim)]
        return groups if self.context_group is None else [*groups, self.context_group]

    @property
    def tensors(self) -> DeviceMesh | None:
        """The tensor group, if weights are split."""
        return self.mesh["tensor"] if self.tensor > 1 else None


def layout(parallel: Parallel, device: str, *, rank: int, world: int, local_world: int) -> Layout:
    """The mesh that the job asks for, on `world` processes of which `local_world` share a node.

    Raises exits.Failure with status CONFIG where they don't come out even.
    """
    copies, shards = sizes(parallel, world, local_world)
    dimensions = {"replicate": copies, "shard": shards, "tensor": parallel.tensor}
    if copies == 1 and parallel.strategy in ("FULL_SHARD", "SHARD_GRAD_OP"):
        del dimensions["replicate"]
    if parallel.tensor == 1:
        del dimensions["tensor"]
    mesh = init_device_mesh(device, tuple(dimensions.values()), mesh_dim_names=tuple(dimensions))
    tensor, context, together = parallel.tensor, parallel.context, parallel.tensor * parallel.context
    group = None
    if context > 1:  # for FSDP they are like any others, so these groups are no dimension of its mesh
        names = ("data", "context", "tensor")
        group = init_device_mesh(device, (world // together, context, tensor), mesh_dim_names=names)[
            "context"
        ]
    return Layout(
        mesh,
        tensor,
        context,
        context_rank=rank // tensor % context,
        context_group=group.get_group() if group is not None else None,
        data_rank=rank // together,
        data_world=world // together,
        first=rank % tensor == 0,
    )


def sizes(parallel: Parallel, world: int, local_world: int) -> tuple[int, int]:
    """Copies of the model, and FSDP's shards of each (every shard once more split among a tensor group)."""
    tensor = parallel.tensor
    if local_world % tensor:
        raise exits.Failure(
            f"parallel.tensor {tensor} does not divide the {local_world} processes of a node", exits.CONFIG
        )
    if world % (tensor * parallel.context):
        raise exits.Failure(
            f"parallel.tensor {tensor} x parallel.context {parallel.context} does not divide the {world} processes",
            exits.CONFIG,
        )
    if parallel.strategy in ("FULL_SHARD", "SHARD_GRAD_OP"):
        return 1, world // tensor
    together = tensor if parallel.strategy == "NO_SHARD" else parallel.shard_size or local_world
    if world % together:
        raise exits.Failure(
            f"parallel.shard_size {together} does not divide the {world} processes", exits.CONFIG
        )
    return world // together, together // tensor
