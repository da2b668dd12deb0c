"""The model: a plain Llama, Mistral or Qwen2 of `transformers`, made without memory, then filled shard by shard.

Built on the meta device, a 70B model costs nothing until each process has its own share of it. Weights are drawn
parameter by parameter from generators seeded by name, so they are the same on any number of processes.
"""

from __future__ import annotations

import hashlib
import importlib
from typing import Any, Literal

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from trainer import shapes
from trainer.config import Model


def shape(model: Model) -> Any:
    """The `transformers` configuration of the model that the job asks for."""
    if model.huggingface is not None:
        family = shapes.read_config(model)["model_type"]
        return _class(family, "Config").from_pretrained(model.huggingface)
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": model.rope_theta}
    if scaling := model.rope_scaling:
        rope |= {
            "rope_type": "llama3",
            "factor": scaling.factor,
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.original_sequence,
        }
    extra = {"sliding_window": model.sliding_window} if model.family == "mistral" else {}
    return _class(model.family, "Config")(
        vocab_size=model.vocabulary,
        hidden_size=model.hidden,
        num_hidden_layers=model.layers,
        num_attention_heads=model.heads,
        num_key_value_heads=model.kv_heads,
        intermediate_size=model.feed_forward,
        max_position_embeddings=model.sequence,
        rope_parameters=rope,
        tie_word_embeddings=model.tied_embeddings,
        rms_norm_eps=model.norm_epsilon,
        initializer_range=model.initial_deviation,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
        **extra,
    )


def build(config: Any) -> nn.Module:
    """A float32 model on the meta device: every shape, no memory, and no dropout, whatever its configuration says."""
    config._attn_implementation = "sdpa"
    config.attention_dropout = 0.0  # the only one of these families; recompute.py would draw it anew
    with torch.device("meta"):
        model: nn.Module = _class(config.model_type, "ForCausalLM")(config).float()
    return model.train()


def dropout(model: Model) -> float:
    """The share of attention that a Hugging Face folder would drop in training, and `build` does not."""
    if model.huggingface is None:
        return 0.0
    return float(shapes.read_config(model).get("attention_dropout") or 0.0)


def architecture(family: str) -> str:
    """The name of the model's class in `transformers`."""
    return f"{family.capitalize()}ForCausalLM"


def _class(family: str, kind: Literal["Config", "ForCausalLM"]) -> Any:
    """Of `transformers`, by its own module: the automatic classes import much that is not needed."""
    part = "configuration" if kind == "Config" else "modeling"
    module = importlib.import_module(f"transformers.models.{family}.{part}_{family}")
    return getattr(module, family.capitalize() + kind)


def blocks(model: nn.Module) -> list[nn.Module]:
    """The transformer blocks, first to last."""
    return list(model.get_submodule("model.layers").children())


def tied(model: nn.Module) -> bool:
    """Whether the output layer uses the embedding's matrix."""
    return bool(model.config.tie_word_embeddings)


def materialise(model: nn.Module, device: torch.device) -> None:
    """Give the (sharded) parameters memory, still unfilled, and every buffer its value.

    `to_empty` leaves buffers that no checkpoint holds as whatever was in memory, and unties tied weights: wrong
    results without any error. So the rotary frequencies, the only buffers of these models, are computed anew here.
    """
    model.to_empty(device=device)
    rotary = model.get_submodule("model.rotary_emb")
    with torch.device(device):
        fresh = type(rotary)(config=model.config)
    model.set_submodule("model.rotary_emb", fresh)
    strangers = [name for name, _ in model.named_buffers() if not name.startswith("model.rotary_emb.")]
    if strangers:
        raise NotImplementedError(f"buffers of unknown content: {', '.join(strangers)}")
    if tied(model):
        model.get_submodule("lm_head").weight = model.get_submodule("model.embed_tokens").weight


def initialise(model: nn.Module, deviation: float, seed: int) -> None:
    """Draw all weights: ones for norms, zeros for biases, a normal distribution for the rest.

    One whole parameter at a time exists on the device; each process keeps its own slice. The same seed gives
    the same weights on any number of processes and with any strategy.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            full = torch.empty(parameter.shape, dtype=parameter.dtype, device=parameter.device)
            if parameter.ndim == 1:
                full.fill_(0.0 if name.endswith("bias") else 1.0)
            else:
                number = int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8], "big") >> 1
                full.normal_(0.0, deviation, generator=torch.Generator(parameter.device).manual_seed(number))
            if isinstance(parameter, DTensor):
                parameter.to_local().copy_(part_of(full, parameter))
            else:
                parameter.copy_(full)


def part_of(full: torch.Tensor, parameter: Any) -> torch.Tensor:
    """This process's part of a tensor of which every process has the whole. `parameter` is the DTensor to fill.

    The last dimension of the mesh has split first: FSDP splits what tensor parallelism leaves to it.
    """
    mesh = parameter.device_mesh
    for dimension, place in reversed(list(enumerate(parameter.placements))):
        if not place.is_replicate():
            parts = full.chunk(mesh.size(dimension), place.dim)
            rank = mesh.get_local_rank(dimension)
            full = parts[rank] if rank < len(parts) else full.narrow(place.dim, 0, 0)
    return full
