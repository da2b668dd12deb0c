"""One step of a job at its true size, on any machine: with tensors that have shapes and no memory.

    python -m trainer.rehearsal --config JOB.yaml --world 128 [--node-size 8] [--set a.b=c] [--json]

The first of `world` processes is played, with the trainer's own code: build and shard the model, draw its weights, set
up the optimiser, go forward and backward (twice, if the job accumulates gradients), update. Nothing is computed
(PyTorch's FakeTensorMode), nobody else is there (its "fake" process group), no weights and no data are read; but every
shape has to fit every other, and each piece of memory is counted as it comes and goes. So a job that can't be split as
it asks, or doesn't fit, says so in a minute, before any GPU is paid for; and the arithmetic of memory.py is held
against the program. Not played: torch.compile, which keeps less, and the overlap of transfers, which holds up to
`parallel.prefetch` blocks more.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from torch.utils.weak import WeakIdKeyDictionary

from trainer import building, config, exits, loss, memory, mesh, products, shapes, sharding
from trainer import model as models
from trainer import optimiser as optimisers
from trainer.config import Job
from trainer.memory import GIB

CPU = torch.device("cpu")
TARGETS = 1 << 20
"""Of the whole batch; any number does."""


class Counter(TorchDispatchMode):
    """Bytes of all storages that operations made and nobody has let go of yet."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.highest = 0
        self._sizes: Any = WeakIdKeyDictionary()
        """By storage: a list of one number, which outlives it."""

    def take(self) -> int:
        """The highest since the last call."""
        highest, self.highest = self.highest, self.now
        return highest

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """What is highest meanwhile does not count. For updates in place: DTensor works out the shapes of their
        results with whole parameters, which nobody has."""
        highest = self.highest
        yield
        self.highest = max(highest, self.now)

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:  # comes again, with what is behind it
            return NotImplemented
        result = operation(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if isinstance(tensor, FakeTensor):
                storage = tensor.untyped_storage()
                if storage not in self._sizes:
                    self._sizes[storage] = size = [0]
                    weakref.finalize(storage, self._let_go, size)
                self.resized(storage)
        return result

    def resized(self, storage: torch.UntypedStorage) -> None:
        """FSDP gives gathered parameters back by setting their storage's size to nothing, which is no operation."""
        if (size := self._sizes.get(storage)) is not None:
            self.now += storage.nbytes() - size[0]
            size[0] = storage.nbytes()
            self.highest = max(self.highest, self.now)

    def _let_go(self, size: list[int]) -> None:
        self.now -= size[0]


@dataclass
class Rehearsal:
    """What one process held, in bytes."""

    parameters: int
    """Of the whole model."""
    stages: dict[str, dict[str, int]] = field(default_factory=dict)
    """By part of the step: the highest during it, and what stays after it."""
    expected: int = 0
    """The peak by memory.py's arithmetic."""

    @property
    def peak(self) -> int:
        return max(stage["highest"] for stage in self.stages.values())

    def facts(self) -> dict[str, Any]:
        fits = memory.fitting(self.peak)
        return {"peak": self.peak, "expected": self.expected, "stages": self.stages, "fits": fits}

    def table(self) -> str:
        lines = [f"{'GiB of one process':<20}{'highest':>10}{'stays':>10}"]
        lines += [
            f"{name:<20}{stage['highest'] / GIB:>10.2f}{stage['stays'] / GIB:>10.2f}"
            for name, stage in self.stages.items()
        ]
        return "\n".join(lines)


def rehearse(job: Job, world: int, node_size: int = 8) -> Rehearsal:
    """Play the first of `world` processes, `node_size` on a node. Raises exits.Failure where the job doesn't come out.

    Needs a process without a process group, and leaves it so.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore

    shape = shapes.of(job.model)
    rehearsal = Rehearsal(shape.parameters)
    counter = Counter()

    def note(stage: str) -> None:
        rehearsal.stages[stage] = {"highest": counter.take(), "stays": counter.now}

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    try:
        local_world = min(node_size, world)
        layout = mesh.layout(job.parallel, "cpu", rank=0, world=world, local_world=local_world)
        with _as_on_a_gpu(counter):
            model = building.shape(job.model_copy(update={"compile": False}), CPU, layout)
            with FakeTensorMode(allow_non_fake_inputs=True), counter:
                _play(job, model, layout, counter, note)
    finally:
        dist.destroy_process_group()
    expected = memory.expect(job, shape, world, local_world)
    rehearsal.expected = expected.peak + expected.host
    return rehearsal


def _play(job: Job, model: nn.Module, layout: mesh.Layout, counter: Counter, note: Any) -> None:
    models.materialise(model, CPU)
    models.initialise(model, job.model.initial_deviation, job.seed)
    note("build")

    optimiser = optimisers.build(model, job.optimiser)

    def update() -> None:
        with counter.quietly():
            optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    update()  # makes its moments: a first step, without them, needs less than all others
    note("optimiser")

    share = layout.data_world * job.batch.micro
    passes = 2 if job.batch.sequences > share else 1
    for number in range(1, passes + 1):
        sharding.accumulate(model, job.parallel, last=number == passes)
        tokens = torch.zeros(
            job.batch.micro, job.model.sequence // layout.context, dtype=torch.int64, device=CPU
        )
        value = model(tokens, tokens.clone(), TARGETS)
        note(f"forward {number}")
        value.backward()
        del value, tokens
        note(f"backward {number}")
    update()
    note("update")


@contextmanager
def _as_on_a_gpu(counter: Counter) -> Iterator[None]:
    """What depends on the device is as there; resized storages are counted."""
    chunk, resize, widened = loss.NUMBERS["cpu"], torch.UntypedStorage.resize_, products.widened

    def counted(storage: torch.UntypedStorage, size: int) -> Any:
        result = resize(storage, size)
        counter.resized(storage)
        return result

    loss.NUMBERS["cpu"] = loss.NUMBERS["cuda"]
    products.widened = cache(lambda: False)
    torch.UntypedStorage.resize_ = counted
    try:
        yield
    finally:
        loss.NUMBERS["cpu"] = chunk
        products.widened = widened
        torch.UntypedStorage.resize_ = resize


EXAMPLES = """\
examples:
  python -m trainer.rehearsal --config stacks/jobs/llama2-7b.yaml --world 128
  python -m trainer.rehearsal --config stacks/jobs/llama2-70b.yaml --world 64 --set batch.micro=2 --json
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trainer.rehearsal", description=__doc__.splitlines()[0], epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--config", type=Path, required=True, help="job file")
    parser.add_argument("--world", type=int, required=True, help="processes, one a GPU")
    parser.add_argument("--node-size", type=int, default=8, help="processes of a node; default: 8")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="override one value")
    parser.add_argument("--json", action="store_true", help="bytes, for programs")
    options = parser.parse_args(arguments)
    logging.getLogger("torch").setLevel(logging.ERROR)
    try:
        job = config.load(options.config, options.set)
        found = rehearse(job, options.world, options.node_size)
    except exits.Failure as failure:
        print(failure, file=sys.stderr)
        return failure.status
    facts = found.facts()
    if options.json:
        print(json.dumps(facts, indent=1))
        return exits.FINISHED
    print(f"{job.name}: {found.parameters:,} parameters on {options.world} processes")
    print(found.table())
    print(f"peak {found.peak / GIB:.2f} GiB, by arithmetic {found.expected / GIB:.2f}")
    print(f"fits {', '.join(facts['fits']) or 'no GPU that is known'}")
    return exits.FINISHED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
