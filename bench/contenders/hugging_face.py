"""Hugging Face's Trainer with FSDP2: sharded by accelerate, or by the plan that `transformers` has for the model.

On a CPU accelerate leaves FSDP out without a word and copies the model instead (DDP), which is not the same training.
`sharded_on_cpu` makes it take the way that it takes on a GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from bench import pace
from bench.contenders.losses import EVERY, Losses
from bench.inputs import Inputs


class Windows(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, inputs: Inputs) -> None:
        self._rows = torch.from_numpy(inputs.windows())

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        tokens = self._rows[row].long()
        return {"input_ids": tokens[:-1], "labels": tokens[1:], "shift_labels": tokens[1:]}


class Log(TrainerCallback):
    def __init__(self, output: Path) -> None:
        self._losses = Losses(output)

    def on_log(self, *_: Any, logs: dict[str, Any], **__: Any) -> None:
        if "loss" in logs:
            self._losses.add(float(logs["loss"]))


class Sharded(TrainerCallback):
    """Raises if the model is not what this contender is meant to train."""

    def on_step_begin(self, *_: Any, model: Any, **__: Any) -> None:
        if not isinstance(model, FSDPModule):
            raise TypeError(f"not sharded with FSDP2: a {type(model).__name__}")


def sharded_on_cpu() -> None:
    from accelerate.state import AcceleratorState
    from accelerate.utils import DistributedType

    make = AcceleratorState.__init__

    def made(state: Any, *arguments: Any, fsdp_plugin: Any = None, **settings: Any) -> None:
        make(state, *arguments, fsdp_plugin=fsdp_plugin, **settings)
        if fsdp_plugin is not None:
            state.distributed_type, state.fsdp_plugin = DistributedType.FSDP, fsdp_plugin
            if state._mixed_precision != "no":
                fsdp_plugin.set_mixed_precision(state._mixed_precision)

    AcceleratorState.__init__ = made


def main(folder: Path, output: Path, precision: str, *, plan: bool = False) -> None:
    inputs = Inputs.read(folder)
    sizes = inputs.sizes
    bfloat16 = precision == "bfloat16"
    arguments = TrainingArguments(
        output_dir=str(output), use_cpu=True, ddp_backend="gloo", seed=sizes.seed, disable_tqdm=True,
        max_steps=len(inputs.windows()) // sizes.sequences, per_device_train_batch_size=sizes.micro,
        train_sampling_strategy="sequential", remove_unused_columns=False, dataloader_pin_memory=False,
        optim="adamw_torch_fused", learning_rate=sizes.learning_rate, lr_scheduler_type="constant",
        adam_beta1=0.9, adam_beta2=0.95, weight_decay=0.0, max_grad_norm=1.0,
        logging_steps=EVERY, save_strategy="no", report_to=[],
        bf16=bfloat16 and not plan,
        **({} if plan else {"fsdp": True, "fsdp_config": {"version": 2}}),
    )  # fmt: skip
    if not plan:
        sharded_on_cpu()
    loading: dict[str, Any] = {"dtype": torch.float32, "attn_implementation": "sdpa"}
    if plan:
        from transformers.distributed import DistributedConfig

        loading["distributed_config"] = DistributedConfig(
            fsdp_size=arguments.world_size, fsdp_mixed_precision=bfloat16
        )
    model = LlamaForCausalLM.from_pretrained(inputs.weights, **loading)
    pace.keep("hugging-face-plan" if plan else "hugging-face")
    trainer = Trainer(model, arguments, train_dataset=Windows(inputs), callbacks=[Log(output), Sharded()])
    trainer.train()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
