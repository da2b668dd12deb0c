"""The numbers that a model is made of, from a job file or from a `config.json`. Costs no torch.

What the formulae of flops.py and memory.py need; `parameters` is exact (tests/trainer/test_shapes.py compares it with
what `transformers` builds).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from trainer import exits
from trainer.config import FAMILIES, Model


@dataclass(frozen=True)
class Shape:
    """A decoder of the Llama family: Llama, Mistral, Qwen2. All sizes in elements."""

    family: str
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    tied: bool
    """The output layer uses the embedding's matrix."""
    qkv_bias: bool = False
    output_bias: bool = False
    """Of attention's last projection."""
    mlp_bias: bool = False
    window: int | None = None
    """Tokens that attention sees at most, in the layers that slide."""
    windowed_layers: int = 0

    @property
    def query_width(self) -> int:
        return self.heads * self.head_size

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_size

    @property
    def block(self) -> int:
        """Parameters of one transformer block."""
        matrices = 2 * self.hidden * (self.query_width + self.kv_width) + 3 * self.hidden * self.feed_forward
        biases = self.qkv_bias * (self.query_width + 2 * self.kv_width) + self.output_bias * self.hidden
        return matrices + biases + self.mlp_bias * (2 * self.feed_forward + self.hidden) + 2 * self.hidden

    @property
    def embedding(self) -> int:
        """Parameters of the input embedding."""
        return self.vocabulary * self.hidden

    @property
    def head(self) -> int:
        """Parameters of the last norm and the output layer (without a tied matrix)."""
        return self.hidden + (0 if self.tied else self.embedding)

    @property
    def parameters(self) -> int:
        return self.embedding + self.layers * self.block + self.head


def of(model: Model) -> Shape:
    """The shape that a job asks for. Raises exits.Failure where the Hugging Face folder doesn't say one."""
    if model.huggingface is not None:
        return from_config(read_config(model))
    assert model.vocabulary and model.hidden and model.layers and model.heads and model.kv_heads
    assert model.feed_forward
    return Shape(
        family=model.family,
        vocabulary=model.vocabulary,
        hidden=model.hidden,
        layers=model.layers,
        heads=model.heads,
        kv_heads=model.kv_heads,
        head_size=model.hidden // model.heads,
        feed_forward=model.feed_forward,
        tied=model.tied_embeddings,
        qkv_bias=model.family == "qwen2",
        window=model.sliding_window,
        windowed_layers=model.layers if model.sliding_window else 0,
    )


def read_config(model: Model) -> dict[str, Any]:
    """`config.json` of the folder to start from. Raises exits.Failure if it is no model that is supported here."""
    assert model.huggingface is not None
    path = model.huggingface / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        raise exits.Failure(
            f"model.huggingface {model.huggingface}: no config.json there", exits.CONFIG
        ) from None
    except ValueError as error:
        raise exits.Failure(f"model.huggingface: {path} is not JSON: {error}", exits.CONFIG) from None
    family = config.get("model_type")
    if family not in FAMILIES:
        raise exits.Failure(
            f"model.huggingface {model.huggingface}: is a {family}; supported are {', '.join(FAMILIES)}",
            exits.CONFIG,
        )
    return config


def from_config(config: dict[str, Any]) -> Shape:
    """From the content of a `config.json`, with the defaults that `transformers` has for what it leaves out."""
    family, heads, layers = config["model_type"], config["num_attention_heads"], config["num_hidden_layers"]
    window, windowed = None, 0
    if family == "mistral":
        window = config.get("sliding_window", 4096)
        windowed = layers
    elif family == "qwen2" and config.get("use_sliding_window"):
        window = config.get("sliding_window", 4096)
        kinds = config.get("layer_types")
        windowed = (
            kinds.count("sliding_attention")
            if kinds
            else max(0, layers - config.get("max_window_layers", 28))
        )
    bias = family == "llama" and bool(config.get("attention_bias"))
    return Shape(
        family=family,
        vocabulary=config["vocab_size"],
        hidden=config["hidden_size"],
        layers=layers,
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_size=config.get("head_dim") or config["hidden_size"] // heads,
        feed_forward=config["intermediate_size"],
        tied=bool(config.get("tie_word_embeddings")),
        qkv_bias=bias or family == "qwen2",
        output_bias=bias,
        mlp_bias=family == "llama" and bool(config.get("mlp_bias")),
        window=window,
        windowed_layers=windowed if window else 0,
    )
