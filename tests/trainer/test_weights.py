"""Weights to and from Hugging Face folders, with `transformers` itself on the other side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trainer import jobs
from tests.trainer.conftest import Group, Outcome

pytestmark = pytest.mark.processes

SHAPE = ("vocabulary", "hidden", "layers", "heads", "kv_heads", "feed_forward")
STILL = {"learning_rate": 1e-30, "weight_decay": 0.0}
NOTHING = 1e-20
"""A published weight that is exactly zero still shows a rate of 1e-30."""


def publish(folder: Path, *, tied: bool, dtype: str) -> dict[str, Any]:
    """A checkpoint of several files made by `transformers` alone; returns the model section that starts from it."""
    import torch
    from transformers.models.llama.modeling_llama import LlamaForCausalLM

    from trainer import model as models

    torch.manual_seed(1)
    scaling = {"factor": 4.0, "original_sequence": 32}
    shape = models.shape(jobs.job(folder, model={"tied_embeddings": tied, "rope_scaling": scaling}).model)
    LlamaForCausalLM(shape).to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size="40KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    return {**dict.fromkeys(SHAPE), "sequence": 64, "huggingface": str(folder)}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("published")
    return {
        "untied": publish(folder / "untied", tied=False, dtype="bfloat16"),
        "tied": publish(folder / "tied", tied=True, dtype="bfloat16"),
        "float32": publish(folder / "float32", tied=False, dtype="float32"),
    }


@pytest.fixture(scope="module")
def outcomes(group: Group, published: dict[str, dict[str, Any]]) -> dict[str, Outcome]:
    changes: dict[str, dict[str, Any]] = {}
    for name, model in published.items():
        changes[f"{name}-still"] = {"model": model, "steps": 3, "optimiser": STILL}
        changes[f"{name}-moved"] = {"model": model}
    return group(2, changes)


def exported(outcome: Outcome, model: dict[str, Any], target: Path, dtype: str) -> Any:
    """What `transformers` loads of our export of the last checkpoint."""
    import torch
    from transformers import AutoModelForCausalLM

    from trainer import model as models
    from trainer import weights
    from trainer.checkpoint.store import Store

    store = Store(outcome.output / "checkpoints")
    shape = models.shape(jobs.job(outcome.output, model=model).model)
    files = weights.export(
        store.path(store.steps()[0]), shape, target, getattr(torch, dtype), file_bytes=60_000
    )
    assert len(files) > 1
    loaded = AutoModelForCausalLM.from_pretrained(target, dtype=getattr(torch, dtype))
    assert type(loaded).__name__ == "LlamaForCausalLM"
    return loaded


@pytest.mark.parametrize("name", ["untied", "tied"])
def test_untouched_weights_come_back_as_they_were(
    name: str, outcomes: dict[str, Outcome], published: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    outcome = outcomes[f"{name}-still"]
    assert outcome.status == 0, outcome.message
    ours = exported(outcome, published[name], tmp_path, "bfloat16")
    theirs = AutoModelForCausalLM.from_pretrained(published[name]["huggingface"], dtype=torch.bfloat16)
    assert set(ours.state_dict()) == set(theirs.state_dict())
    for key, value in theirs.state_dict().items():
        assert float((ours.state_dict()[key] - value).abs().max()) < NOTHING, key
    tokens = torch.arange(1, 49).reshape(2, 24)
    with torch.no_grad():
        assert float((ours(tokens).logits - theirs(tokens).logits).abs().max()) < NOTHING


@pytest.mark.parametrize("name", ["untied", "tied"])
def test_trained_weights_are_exported_exactly(
    name: str, outcomes: dict[str, Outcome], published: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    outcome = outcomes[f"{name}-moved"]
    assert outcome.losses[-1] < outcome.losses[0] - 0.5
    ours = exported(outcome, published[name], tmp_path, "float32").state_dict()
    for key, value in outcome.weights(12).items():
        assert bool((ours[key] == value).all()), key


def test_the_first_loss_is_the_one_that_transformers_gets(
    outcomes: dict[str, Outcome], published: dict[str, dict[str, Any]]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from trainer.data import batches, shards

    outcome = outcomes["float32-moved"]
    data = outcome.output / "data"
    stream = shards.Stream(data, shards.read_index(data), shards.TRAIN)
    (batch,) = batches.Batches(stream, 64, rank=0, world=1, micro=8).step(1, 8, 5)
    model = AutoModelForCausalLM.from_pretrained(published["float32"]["huggingface"], dtype=torch.float32)
    with torch.no_grad():
        expected = float(model(batch.inputs, labels=batch.inputs, shift_labels=batch.targets).loss)
    assert outcome.losses[0] == pytest.approx(expected, rel=1e-5)
