"""How much memory one process needs, by arithmetic. Costs no torch.

    python -m trainer.memory --config JOB.yaml --world 128 [--node-size 8] [--set a.b=c] [--json]

State: float32 parameters (4 bytes each), gradients (4) and AdamW's two moments (8), each divided by the processes that
share a copy of the model (ZeRO, arXiv 1910.02054, section 3.1: 16 bytes a parameter in all). What comes on top differs
from moment to moment of a step; the largest moment decides:

  loss       all kept activations, the output layer with its gradient, a chunk of logits
  backward   all kept activations, one block at work, blocks gathered and gradients not yet divided
  end        the same at the last blocks: hardly any activations left, all gradients
  update     all gradients; the fused AdamW needs nothing on top of its moments

What autograd keeps of a block was read off `transformers`' code, operation by operation (`kept`), as Korthikanti et
al. do for GPT (arXiv 2205.05198). tests/trainer/test_memory.py compares it with what PyTorch's allocator counts, and
the whole with what the kernel counts for real processes. torch.compile keeps less than said here. Not counted: the
CUDA context, NCCL's buffers, fragmentation; that is what HEADROOM is for.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer import config, exits, shapes
from trainer.config import Job
from trainer.shapes import Shape

WIDTHS = {"float32": 4, "bfloat16": 2}
"""Bytes of a number."""
GIB = 1 << 30
DEVICES = {
    "p4d.24xlarge": ("A100 40 GB", 39 * GIB),
    "p4de.24xlarge": ("A100 80 GB", 79 * GIB),
    "p5.48xlarge": ("H100 80 GB", 79 * GIB),
    "p5e.48xlarge": ("H200 141 GB", 139 * GIB),
    "p5en.48xlarge": ("H200 141 GB", 139 * GIB),
}
"""By instance type: the GPU, and what a process can have of its memory (torch.cuda.mem_get_info, rounded down)."""
HEADROOM = 0.1
"""Share of a device that has to stay free: context, NCCL's buffers and fragments took 3 to 6 GiB in published runs."""
LOGITS = {"cuda": 1 << 27, "cpu": 1 << 22}
"""Logits that exist at a time (loss.NUMBERS)."""


def fits(peak: int, capacity: int) -> bool:
    """Whether a process that needs so many bytes leaves HEADROOM on such a device."""
    return peak <= capacity * (1 - HEADROOM)


def fitting(peak: int) -> list[str]:
    """The instance types whose GPUs it fits."""
    return [name for name, (_, capacity) in DEVICES.items() if fits(peak, capacity)]


@dataclass(frozen=True)
class Memory:
    """Bytes of one process."""

    parameters: int
    """Parameters of its shard, float32."""
    gradients: int
    optimiser: int
    moments: dict[str, dict[str, int]]
    """By moment of a step, what is there besides parameters and optimiser state."""
    loading: int
    """Highest while the model is built and its weights are drawn or read."""
    offloaded: bool = False
    """Parameters, gradients and optimiser state are in the host's memory, not in the device's."""

    @property
    def moment(self) -> str:
        """The one that decides."""
        return max(self.moments, key=lambda name: sum(self.moments[name].values()))

    @property
    def parts(self) -> dict[str, int]:
        """What adds up to the peak, on the device."""
        state = {} if self.offloaded else {"parameters": self.parameters, "optimiser": self.optimiser}
        return state | self.moments[self.moment]

    @property
    def peak(self) -> int:
        """Of the device."""
        return max(sum(self.parts.values()), 0 if self.offloaded else self.loading)

    @property
    def host(self) -> int:
        """On the host, where the state is offloaded to it."""
        return self.parameters + self.gradients + self.optimiser if self.offloaded else 0

    def fits(self, capacity: int) -> bool:
        return fits(self.peak, capacity)

    def facts(self) -> dict[str, Any]:
        """For programs: bytes, and the instance types whose GPUs it fits."""
        return {
            "peak": self.peak, "moment": self.moment, "parts": self.parts, "loading": self.loading,
            "host": self.host, "fits": fitting(self.peak),
        }  # fmt: skip

    def sentence(self) -> str:
        """One line for the log."""
        parts = ", ".join(f"{name} {size / GIB:.2f}" for name, size in self.parts.items() if size)
        on_host = f", and {self.host / GIB:.2f} on the host" if self.offloaded else ""
        return f"expected peak of one process {self.peak / GIB:.2f} GiB ({parts}){on_host}"


def kept(shape: Shape, width: int, mode: str, tensor: int = 1) -> float:
    """Bytes that one block keeps for the backward pass, per token (for `full`: its input only).

    Each norm keeps its input, its result and a float32 number; attention keeps rotated queries and keys, values,
    result and a float32 number a head; the feed-forward keeps gate, the other half and their product (norms.py,
    swiglu.py). `selective` keeps attention's results and every second matmul: queries, values, gate, the last one.
    A tensor group splits all of it but what the norms hand on, which is gathered, and the last product, a summand.
    """
    hidden, inner = shape.hidden, shape.feed_forward
    queries, keys = shape.query_width, shape.kv_width
    if mode == "full":
        return width * hidden / tensor
    attention = width * queries + 4 * shape.heads
    if mode == "selective":
        return (width * (hidden + queries + keys + inner) + attention) / tensor + width * hidden
    norms = 2 * (width * hidden + 4)
    return (norms + width * (queries + 2 * keys + 3 * inner) + attention) / tensor + 2 * width * hidden


def held(job: Job) -> int:
    """Tokens that one process has of a micro batch. (Attention has all of them, of so many heads fewer.)"""
    return job.batch.micro * job.model.sequence // job.parallel.context


def masks(job: Job, shape: Shape, width: int) -> int:
    """Bytes of one sliding layer: a mask as attention wants it, and keys and values for every head. None where the
    sequence is not longer than the window."""
    sequence = job.model.sequence
    if not shape.window or shape.window >= sequence:
        return 0
    split = job.parallel.tensor * job.parallel.context
    repeated = 2 * job.batch.micro * sequence * (shape.query_width - shape.kv_width) // split
    return width * (sequence * sequence + repeated)


def activations(job: Job, shape: Shape) -> tuple[int, int]:
    """Bytes kept by all blocks for one micro batch, and more of one block while it works in the backward pass."""
    width, tokens = WIDTHS[job.precision.compute], held(job)
    mode, every, tensor = job.recompute.mode, job.recompute.every, job.parallel.tensor
    treated = -(-shape.layers // every) if mode != "none" else 0
    plain, less = kept(shape, width, "none", tensor), kept(shape, width, mode, tensor)
    mask = masks(job, shape, width)
    sliding = max(0, shape.windowed_layers - treated)
    whole = tokens * (treated * less + (shape.layers - treated) * plain) + sliding * mask
    # The larger of the backward passes of the feed-forward and of a norm, which counts in float32.
    work = tokens * (
        width * shape.hidden + max(16 * shape.hidden, width * (shape.hidden + shape.feed_forward)) / tensor
    )
    if treated:
        work += tokens * (plain - less) + (mask if shape.windowed_layers else 0)
    return int(whole), int(work)


def expect(job: Job, shape: Shape, world: int, node_size: int, device: str = "cuda") -> Memory:
    """What one of `world` processes needs, `node_size` of them on each node."""
    parallel, tensor = job.parallel, job.parallel.tensor
    compute, reduce = WIDTHS[job.precision.compute], WIDTHS[job.precision.reduce]
    together = {"NO_SHARD": tensor, "HYBRID_SHARD": parallel.shard_size or min(node_size, world)}
    sharers = together.get(parallel.strategy, world)
    tokens = held(job)
    passes = -(-job.batch.sequences * tensor * parallel.context // (world * job.batch.micro))
    # What one tensor group splits; norms, which it doesn't, are too small to show.
    whole, block = shape.parameters // tensor, shape.block // tensor
    embedding = shape.embedding // tensor
    ends = embedding + shape.hidden if shape.tied else shape.head // tensor

    state = -(-4 * shape.parameters // sharers)
    stays = 0 if parallel.strategy in ("FULL_SHARD", "HYBRID_SHARD") else shape.layers * block
    ahead = parallel.prefetch if sharers > tensor else 0
    flight = (1 + ahead) * block
    before = state if passes > 1 and parallel.accumulate == "sharded" else 0
    undivided = reduce * whole if passes > 1 and parallel.accumulate == "whole" else 0

    alive, work = activations(job, shape)
    last = tokens * shape.hidden * compute * (2 + 1 / tensor)  # the last norm, and the loss's gradient
    logits = min(tokens * shape.vocabulary // tensor, LOGITS[device])
    # A tied matrix is gathered all the time, and its gradient waits for the embedding's.
    tied = compute * ends if shape.tied else 0
    moments = {
        "loss": {
            "gradients": before + undivided,
            "activations": alive + int(last),
            "gathered": compute * ((stays or block) + ends),  # the last block is kept for its turn
            "loss": compute * ends + max((4 + compute) * logits, reduce * ends),
        },
        "backward": {
            "gradients": before + undivided,
            "activations": alive + work,
            "gathered": compute * (stays or flight) + tied,
            "undivided gradients": (compute + reduce) * block + tied + (0 if tied else reduce * ends),
        },
        "end": {
            "gradients": state + undivided,
            "activations": 2 * alive // shape.layers + work,
            "gathered": compute * flight + tied,
            "undivided gradients": max(
                (compute + reduce) * embedding + reduce * block, (compute + reduce) * block
            ),
        },
        "update": {"gradients": state},
    }
    return Memory(
        parameters=state,
        gradients=state,
        optimiser=2 * state,
        moments=moments,
        loading=state + 4 * max(shape.embedding, shape.hidden * shape.feed_forward),
        offloaded=parallel.cpu_offload,
    )


def table(expected: dict[int, Memory]) -> str:
    """One row for each number of processes."""
    names = list(dict.fromkeys(name for one in expected.values() for name in one.parts))
    lines = [["processes", *names, "peak", "at", *DEVICES]]
    for world, one in expected.items():
        sizes = [f"{one.parts[name] / GIB:.2f}" if name in one.parts else "" for name in names]
        fits = ["fits" if one.fits(capacity) else "too much" for _, capacity in DEVICES.values()]
        lines.append([str(world), *sizes, f"{one.peak / GIB:.2f}", one.moment, *fits])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )


EXAMPLES = """\
examples:
  python -m trainer.memory --config stacks/jobs/llama2-7b.yaml --world 128
  python -m trainer.memory --config stacks/jobs/llama2-70b.yaml --world 32 64 128 --set batch.micro=4
  python -m trainer.memory --config stacks/jobs/llama3-8b.yaml --world 16 --json
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m trainer.memory",
        description="Expected peak memory of one process, GiB, and whether it fits the GPUs of each instance type "
        f"(a tenth of which has to stay free: {HEADROOM:.0%}).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", required=True, type=Path, help="job file")
    parser.add_argument("--world", required=True, type=int, nargs="+", help="processes (GPUs) of the job")
    parser.add_argument("--node-size", type=int, default=8, help="processes of one node (default: 8)")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="override one value")
    parser.add_argument("--json", action="store_true", help="bytes, for programs")
    options = parser.parse_args(arguments)
    try:
        job = config.load(options.config, options.set)
        shape = shapes.of(job.model)
    except exits.Failure as failure:
        print(failure, file=sys.stderr)
        return failure.status
    expected = {world: expect(job, shape, world, options.node_size) for world in options.world}
    if options.json:
        print(json.dumps({world: one.facts() for world, one in expected.items()}, indent=1))
    else:
        print(f"{job.name}: {shape.parameters:,} parameters; GiB of one process")
        print(table(expected))
        for world, one in expected.items():
            if one.offloaded:
                print(f"{world} processes: {one.host / GIB:.2f} GiB of each on the host")
    return exits.FINISHED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
