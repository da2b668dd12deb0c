"""Which model is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainer.config.section import Positive, Section

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
    """Folder to read shape and weights from; excludes the shape's own keys."""

    @model_validator(mode="after")
    def _shape_or_folder(self) -> Self:
        shape = ("vocabulary", "hidden", "layers", "heads", "kv_heads", "feed_forward")
        given = [name for name in shape if getattr(self, name) is not None]
        if self.huggingface is not None:
            defaults = type(self).model_fields
            given += [name for name in DETAILS if getattr(self, name) != defaults[name].default]
            if given:
                raise ValueError(f"huggingface already says {', '.join(given)}: give one or the other")
            return self
        missing = [name for name in shape if name not in given]
        if missing:
            raise ValueError(f"missing {', '.join(missing)} (or give huggingface: FOLDER)")
        assert self.hidden and self.heads and self.kv_heads
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} is not a multiple of heads {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        if self.sliding_window and self.family != "mistral":
            raise ValueError(f"sliding_window is for mistral, not for {self.family}")
        return self


DETAILS = ("family", "rope_theta", "rope_scaling", "sliding_window", "tied_embeddings", "norm_epsilon")
"""Keys of a model that a Hugging Face folder decides by itself, as it does its sizes."""
