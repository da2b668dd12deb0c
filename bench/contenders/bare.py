"""The leanest correct loop: FSDP2 on a Llama of `transformers`, and nothing that training doesn't need."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from bench import pace
from bench.contenders.losses import EVERY, Losses
from bench.inputs import Inputs


def main(folder: Path, output: Path, precision: str) -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    inputs = Inputs.read(folder)
    sizes = inputs.sizes

    model = LlamaForCausalLM.from_pretrained(inputs.weights, dtype=torch.float32, attn_implementation="sdpa")
    compute = torch.bfloat16 if precision == "bfloat16" else torch.float32
    policy = MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.train()
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=sizes.learning_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True
    )

    windows = torch.from_numpy(inputs.windows())
    losses, total = Losses(output), torch.zeros(())
    pace.keep("bare")
    for step, batch in enumerate(windows.split(sizes.sequences), start=1):
        mine = batch[rank::world].long()
        logits = model(input_ids=mine[:, :-1], use_cache=False).logits
        loss = functional.cross_entropy(logits.float().flatten(0, 1), mine[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        total += loss.detach()
        if step % EVERY == 0:
            dist.all_reduce(total)
            losses.add(float(total) / world / EVERY)
            total.zero_()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
