"""The shape of a model, from a job and from `config.json`, against what `transformers` builds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import jobs
from trainer import exits, shapes

CASES: list[dict[str, Any]] = [
    {},
    {"tied_embeddings": True},
    {"family": "mistral", "sliding_window": 48},
    {"family": "qwen2", "tied_embeddings": True},
]
SIZES = {
    "vocab_size": 100, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 80,
}  # fmt: skip
CONFIGS: list[dict[str, Any]] = [
    {
        "model_type": "llama",
        "attention_bias": True,
        "mlp_bias": True,
        "num_key_value_heads": 3,
        "head_dim": 16,
    },
    {"model_type": "llama"},
    {"model_type": "mistral", "num_key_value_heads": 2, "head_dim": 4},
    {"model_type": "mistral", "num_key_value_heads": 2, "sliding_window": None},
    {"model_type": "qwen2", "num_key_value_heads": 2, "tie_word_embeddings": True},
    {"model_type": "qwen2", "num_key_value_heads": 2, "use_sliding_window": True, "max_window_layers": 1},
]


def compare(model: Any, sequence_of_window: int | None) -> None:
    from trainer import model as models

    config, shape = models.shape(model), shapes.of(model)
    built = models.build(config)
    assert sum(parameter.numel() for parameter in built.parameters()) == shape.parameters
    assert sum(parameter.numel() for parameter in models.blocks(built)[0].parameters()) == shape.block
    assert built.get_input_embeddings().weight.numel() == shape.embedding  # type: ignore[operator]
    assert models.tied(built) == shape.tied
    attention = models.blocks(built)[0].self_attn
    assert attention.q_proj.out_features == shape.query_width  # type: ignore[union-attr]
    assert attention.k_proj.out_features == shape.kv_width  # type: ignore[union-attr]
    assert shape.window == sequence_of_window
    assert bool(shape.window) == bool(shape.windowed_layers)


@pytest.mark.processes  # imports torch
@pytest.mark.parametrize("change", CASES)
def test_from_a_job(change: dict[str, Any], tmp_path: Path) -> None:
    compare(jobs.job(tmp_path, model=change).model, change.get("sliding_window"))


@pytest.mark.processes
@pytest.mark.parametrize("content", CONFIGS)
def test_from_a_folder(content: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SIZES | content))
    model = jobs.job(tmp_path, model={**dict.fromkeys(jobs.SHAPE), "huggingface": str(tmp_path)}).model
    slides = content["model_type"] == "mistral" or content.get("use_sliding_window")
    compare(model, content.get("sliding_window", 4096) if slides else None)
    layers = shapes.of(model).windowed_layers
    assert layers == (0 if not shapes.of(model).window else 2 if "max_window_layers" in content else 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no config.json there"),
        ("{", "is not JSON"),
        ('{"model_type": "gemma"}', "is a gemma; supported are llama, mistral, qwen2"),
    ],
)
def test_folders_that_cannot_be_trained(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    model = jobs.job(tmp_path, model={**dict.fromkeys(jobs.SHAPE), "huggingface": str(tmp_path)}).model
    with pytest.raises(exits.Failure, match=message) as caught:
        shapes.of(model)
    assert caught.value.status == exits.CONFIG


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sliding_window": 8}, "sliding_window is for mistral, not for llama"),
        (
            {
                **dict.fromkeys(jobs.SHAPE),
                "huggingface": "/models/m",
                "tied_embeddings": True,
                "family": "qwen2",
            },
            "huggingface already says family, tied_embeddings",
        ),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jobs.job(tmp_path, model=change)
