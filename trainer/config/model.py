"""Which model is trained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from trainer.config.section import Positive, Section, check

FAMILIES = ("llama", "mistral", "qwen2")
"""By the names that `transformers` gives them (model_type)."""


class RopeScaling(Section):
    """Llama 3.1's stretched rotary positions; the names and defaults are those of the published models."""

    factor: Annotated[float, Field(ge=1)] = 8.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_sequence: Positive = 8192


class Model(Section):
    """A model of the Llama family by its shape, or a Hugging Face folder with `config.json` and safetensors."""

    family: Literal["llama", "mistral", "qwen2"] = "llama"
    """qwen2 has biases at query, key and value; mistral may have a sliding window."""
    vocabulary: Positive | None = None
    hidden: Positive | None = None
    layers: Positive | None = None
    heads: Positive | None = None
    kv_heads: Positive | None = None
    feed_forward: Positive | None = None
    sequence: Positive
    """Tokens in one training sequence."""
    rope_theta: float = 10_000.0
    rope_scaling: RopeScaling | None = None
    sliding_window: Positive | None = None
    """mistral only: tokens that attention sees at most, itself included."""
    tied_embeddings: bool = False
    norm_epsilon: float = 1e-5
    initial_deviation: float = 0.02
    """Standard deviation of freshly drawn weights."""
    huggingface: Path | None = None
    """Folder to read shape and weights from; excludes the shape's own keys. Its dropout is not used."""

    @check
    def _shape_or_folder(self) -> Iterator[str]:
        fields = type(self).model_fields  # a value that is lacking was given, a wrong one
        given = [name for name in SIZES + DETAILS if getattr(self, name, "wrong") != fields[name].default]
        missing = [name for name in SIZES if name not in given]
        if self.huggingface is not None and given:
            yield f"huggingface already says {', '.join(given)}: give one or the other"
        if self.huggingface is None and missing:
            yield f"missing {', '.join(missing)} (or give huggingface: FOLDER)"

    @check
    def _heads_share_hidden(self) -> Iterator[str]:
        if self.huggingface is None and self.hidden and self.heads and self.hidden % self.heads:
            yield f"hidden {self.hidden} is not a multiple of heads {self.heads}"

    @check
    def _kv_heads_share_heads(self) -> Iterator[str]:
        if self.huggingface is None and self.heads and self.kv_heads and self.heads % self.kv_heads:
            yield f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}"

    @check
    def _only_mistral_slides(self) -> Iterator[str]:
        if self.huggingface is None and self.sliding_window and self.family != "mistral":
            yield f"sliding_window is for mistral, not for {self.family}"


SIZES = ("vocabulary", "hidden", "layers", "heads", "kv_heads", "feed_forward")
"""Keys of a model that has no Hugging Face folder."""
DETAILS = ("family", "rope_theta", "rope_scaling", "sliding_window", "tied_embeddings", "norm_epsilon")
"""Keys of a model that a Hugging Face folder decides by itself, as it does its sizes."""
