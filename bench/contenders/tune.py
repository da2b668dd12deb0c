"""torchtune's own recipe for full fine-tuning on several devices, on CPU.

Before its first step the recipe asks for the GPU's memory statistics and empties the GPU's cache, whatever the device,
and fails on a CPU: these calls are taken out. Everything else is the recipe's.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import torch
import torchtune.training
from omegaconf import OmegaConf
from torch.utils.data import Dataset

from bench import pace
from bench.contenders.losses import EVERY, Losses
from bench.inputs import Inputs


class Windows(Dataset[dict[str, Any]]):
    """torchtune shifts the labels itself and pads the last place: a row of sequence + 1 tokens, with its last
    target, is not expressible, so each row predicts one token less than the others' do."""

    def __init__(self, tokenizer: object, folder: str) -> None:
        self._rows = torch.from_numpy(Inputs.read(Path(folder)).windows())

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> dict[str, Any]:
        tokens = self._rows[row, :-1].tolist()
        return {"tokens": tokens, "labels": tokens}


class Tokenizer:
    pad_id = 0


class Logger:
    """A metric logger: torchtune computes the loss of every step anyway."""

    def __init__(self, folder: str) -> None:
        self._losses, self._recent = Losses(Path(folder)), list[float]()

    def log_config(self, config: object) -> None:
        pass

    def log_dict(self, payload: dict[str, Any], step: int) -> None:
        self._recent.append(float(payload["loss"]))
        if len(self._recent) == EVERY:
            self._losses.add(sum(self._recent) / EVERY)
            self._recent.clear()

    def close(self) -> None:
        pass


def settings(inputs: Inputs, folder: Path, output: Path, precision: str) -> dict[str, Any]:
    """The recipe's configuration, as its YAML would be."""
    sizes = inputs.sizes
    return {
        "device": "cpu",
        "dtype": {"float32": "fp32", "bfloat16": "bf16"}[precision],
        "seed": sizes.seed,
        "output_dir": str(output),
        "epochs": 1,
        "max_steps_per_epoch": None,
        "batch_size": sizes.micro,
        "gradient_accumulation_steps": 1,
        "clip_grad_norm": 1.0,
        "shuffle": False,
        "resume_from_checkpoint": False,
        "log_every_n_steps": 1,
        "tokenizer": {"_component_": "bench.contenders.tune.Tokenizer"},
        "dataset": {"_component_": "bench.contenders.tune.Windows", "folder": str(folder)},
        "metric_logger": {"_component_": "bench.contenders.tune.Logger", "folder": str(output)},
        "model": {
            "_component_": "torchtune.models.llama3.llama3",
            "vocab_size": sizes.vocabulary,
            "num_layers": sizes.layers,
            "num_heads": sizes.heads,
            "num_kv_heads": sizes.kv_heads,
            "embed_dim": sizes.hidden,
            "max_seq_len": sizes.sequence,
            "rope_base": 10_000,
            "intermediate_dim": sizes.feed_forward,
            "norm_eps": 1e-5,
        },
        "checkpointer": {
            "_component_": "torchtune.training.FullModelHFCheckpointer",
            "checkpoint_dir": str(inputs.weights),
            "checkpoint_files": ["model.safetensors"],
            "recipe_checkpoint": None,
            "output_dir": str(output),
            "model_type": "LLAMA3",
        },
        "loss": {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"},
        "optimizer": {
            "_component_": "torch.optim.AdamW",
            "lr": sizes.learning_rate,
            "betas": [0.9, 0.95],
            "weight_decay": 0.0,
            "fused": True,
        },
    }


def recipe() -> Any:
    """The recipe's class: recipes are scripts beside the package, not modules of it."""
    file = Path(torchtune.__file__).parents[1] / "recipes" / "full_finetune_distributed.py"
    spec = importlib.util.spec_from_file_location("full_finetune_distributed", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FullFinetuneRecipeDistributed


def main(folder: Path, output: Path, precision: str) -> None:
    config = OmegaConf.create(settings(Inputs.read(folder), folder, output, precision))
    for name in ("get_memory_stats", "log_memory_stats", "cleanup_before_training"):
        setattr(torchtune.training, name, lambda *_, **__: {})
    training = recipe()(cfg=config)
    training.setup(cfg=config)
    pace.keep("torchtune")
    training.train()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
