"""Weights to and from Hugging Face folders, with `transformers` itself on the other side."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import jobs
from tests.trainer.conftest import ENVIRONMENT, PROJECT, Group, Outcome
from trainer import exits

pytestmark = pytest.mark.processes

STILL = {"learning_rate": 1e-30, "weight_decay": 0.0}
NOTHING = 1e-20
"""A published weight that is exactly zero still shows a rate of 1e-30."""

MODELS: dict[str, dict[str, Any]] = {
    "llama": {"rope_scaling": {"factor": 4.0, "original_sequence": 32}},
    "llama-tied": {"rope_scaling": {"factor": 4.0, "original_sequence": 32}, "tied_embeddings": True},
    "mistral": {"family": "mistral", "sliding_window": 16},
    "qwen2": {"family": "qwen2", "rope_theta": 1e6},
    "qwen2-tied": {"family": "qwen2", "tied_embeddings": True},
}
DTYPES = {"llama": "bfloat16", "llama-tied": "bfloat16", "qwen2-tied": "bfloat16"}
"""Of the published folder; float32 for the others."""
BROKEN: dict[str, Callable[[list[Path]], None]] = {
    "cut-off": lambda files: os.truncate(files[0], files[0].stat().st_size - 100),
    "without-a-matrix": lambda files: files[0].unlink(),
    "without-files": lambda files: [file.unlink() for file in files] and None,
}
"""What was done to a folder of weights before a job starts from it."""
DROPOUT = {"mistral": 0.1, "qwen2": 0.1}
"""In the published `config.json`."""
CLASSES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM"}


def publish(folder: Path, name: str) -> dict[str, Any]:
    """A checkpoint of several files made by `transformers` alone; returns the model section that starts from it."""
    import torch
    import transformers
    from transformers.models.byt5.tokenization_byt5 import ByT5Tokenizer

    from trainer import model as models

    torch.manual_seed(1)
    family = MODELS[name].get("family", "llama")
    shape = models.shape(jobs.job(folder, model=MODELS[name]).model)
    theirs = getattr(transformers, CLASSES[family])(shape)
    with torch.no_grad():
        for key, parameter in theirs.named_parameters():
            if parameter.ndim == 1:  # biases and norms that show when they are lost
                parameter.normal_(float("norm" in key), 0.2)
    theirs.generation_config.max_new_tokens = 7
    theirs.config.attention_dropout = DROPOUT.get(name, 0.0)
    theirs.to(getattr(torch, DTYPES.get(name, "float32"))).save_pretrained(folder, max_shard_size="40KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    ByT5Tokenizer(chat_template="{% for m in messages %}{{ m.content }}{% endfor %}").save_pretrained(folder)
    (folder / "LICENSE.txt").write_text("free for all\n")
    return {**dict.fromkeys(jobs.SHAPE), "sequence": 64, "huggingface": str(folder)}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("published")
    return {name: publish(folder / name, name) for name in MODELS}


@pytest.fixture(scope="module")
def outcomes(
    group: Group, published: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    changes: dict[str, dict[str, Any]] = {}
    for name, model in published.items():
        changes[f"{name}-still"] = {"model": model, "steps": 3, "optimiser": STILL}
        changes[f"{name}-moved"] = {"model": model, "recompute": {"mode": "full"}}
    for name, harm in BROKEN.items():
        folder = tmp_path_factory.mktemp("broken") / name
        shutil.copytree(published["llama"]["huggingface"], folder)
        harm(sorted(folder.glob("*.safetensors")))
        changes[name] = {"model": {**published["llama"], "huggingface": str(folder)}}
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
    saved = store.saved()[0]
    reader = store.reader(saved, store.read_commit(saved))
    files = weights.export(reader, shape, target, getattr(torch, dtype), file_bytes=60_000)
    assert len(files) > 1
    loaded = AutoModelForCausalLM.from_pretrained(target, dtype=getattr(torch, dtype))
    assert type(loaded).__name__ == CLASSES[shape.model_type]
    assert json.loads((target / "config.json").read_text())["architectures"] == [CLASSES[shape.model_type]]
    return loaded


def prompts() -> Any:
    import torch

    return torch.arange(1, 61).reshape(2, 30)


@pytest.mark.parametrize("name", MODELS)
def test_untouched_weights_come_back_as_they_were(
    name: str, outcomes: dict[str, Outcome], published: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    outcome, dtype = outcomes[f"{name}-still"], DTYPES.get(name, "float32")
    assert outcome.status == 0, outcome.message
    ours = exported(outcome, published[name], tmp_path, dtype)
    theirs = AutoModelForCausalLM.from_pretrained(published[name]["huggingface"], dtype=getattr(torch, dtype))
    assert set(ours.state_dict()) == set(theirs.state_dict())
    for key, value in theirs.state_dict().items():
        assert float((ours.state_dict()[key] - value).abs().max()) < NOTHING, key
    with torch.no_grad():
        assert float((ours(prompts()).logits - theirs(prompts()).logits).abs().max()) < NOTHING


@pytest.mark.parametrize("name", MODELS)
def test_trained_weights_are_exported_exactly(
    name: str, outcomes: dict[str, Outcome], published: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    """Our own model, filled with what PyTorch's converter reads of the checkpoint, against `transformers` alone, which
    reads the export: the same weights, the same logits, the same text."""
    import torch

    from trainer import model as models

    outcome = outcomes[f"{name}-moved"]
    assert outcome.losses[-1] < outcome.losses[0] - 0.5
    theirs = exported(outcome, published[name], tmp_path, "float32").eval()
    weights = outcome.weights(12)
    for key, value in weights.items():
        assert bool((theirs.state_dict()[key] == value).all()), key
    ours: Any = models.build(models.shape(jobs.job(tmp_path, model=published[name]).model)).eval()
    models.materialise(ours, torch.device("cpu"))
    ours.load_state_dict(weights)
    with torch.no_grad():
        assert bool((ours(prompts()).logits == theirs(prompts()).logits).all())
        said, theirs_said = (generated(model) for model in (ours, theirs))
    assert bool((said == theirs_said).all())
    assert len(set(said[0, 30:].tolist())) > 3


@pytest.mark.parametrize("name", BROKEN)
def test_a_folder_that_cannot_be_loaded_ends_the_job_with_the_reason(
    name: str, outcomes: dict[str, Outcome]
) -> None:
    outcome = outcomes[name]
    assert outcome.status == exits.CONFIG
    assert f"/{name} cannot be loaded: rank " in outcome.message


def generated(model: Any) -> Any:
    """Drawn, as the most likely token of such small models is the same one for ever."""
    import torch

    torch.manual_seed(3)
    mask = torch.ones_like(prompts())
    return model.generate(prompts(), attention_mask=mask, do_sample=True, max_new_tokens=12)


@pytest.mark.parametrize("name", ["llama-tied", "mistral", "qwen2"])
def test_a_published_model_trains_as_transformers_alone_trains_it(
    name: str, outcomes: dict[str, Outcome], published: dict[str, dict[str, Any]]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from tests.trainer import reference

    outcome = outcomes[f"{name}-moved"]
    start = AutoModelForCausalLM.from_pretrained(
        published[name]["huggingface"], dtype=torch.float32, attention_dropout=0.0
    )
    plain = reference.train(
        jobs.job(outcome.output, model=published[name]), outcome.output / "data", start.train()
    )
    assert outcome.losses == pytest.approx(plain.losses, rel=1e-5)
    for key, value in outcome.weights(12).items():
        assert float((plain.weights[key] - value).norm() / value.norm()) < 1e-4, key


def test_dropout_that_is_not_used_is_said(
    outcomes: dict[str, Outcome], published: dict[str, dict[str, Any]]
) -> None:
    line = "model.huggingface: attention_dropout 0.1 is not used: training is without dropout"
    assert outcomes["mistral-moved"].text.count(line) == 2 * len(DROPOUT)
    for name, model in published.items():
        said = json.loads((Path(model["huggingface"]) / "config.json").read_text())
        others = [key for key in said if "dropout" in key or key.endswith("pdrop")]
        assert others == ["attention_dropout"], name


def test_an_export_is_complete(
    outcomes: dict[str, Outcome], published: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    from transformers import AutoTokenizer, GenerationConfig

    from trainer import weights

    job = jobs.job(outcomes["mistral-moved"].output, model=published["mistral"])
    found = weights.add_companions(job, tmp_path)
    assert {"tokenizer_config.json", "chat_template.jinja", "generation_config.json", "LICENSE.txt"} <= {
        *found
    }
    assert not any(name.endswith(".safetensors") or name == "config.json" for name in found)
    assert GenerationConfig.from_pretrained(tmp_path).max_new_tokens == 7
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hm"}], tokenize=False) == "hm"


def test_an_export_of_a_run_from_scratch_has_the_tokenizer_of_its_data(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    from trainer import weights

    weights.add_companions(jobs.job(tmp_path / "run"), tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).encode("a", add_special_tokens=False) == [ord("a") + 3]


def checkpoint(output: Path, step: int) -> Any:
    """One whose every weight is its step; returns the reader and the model's shape."""
    import torch
    import torch.distributed.checkpoint as dcp

    from trainer import model as models
    from trainer.checkpoint.commits import Commit
    from trainer.checkpoint.store import Store

    shape = models.shape(jobs.job(output).model)
    model: Any = models.build(shape)
    models.materialise(model, torch.device("cpu"))
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, step)
    store = Store(output / "checkpoints")
    attempt = store.attempt(step, "a")
    dcp.save({"model": model.state_dict()}, storage_writer=store.writer(attempt), no_dist=True)
    store.commit(attempt, Commit(step, {}, 1, {}, store.finish(attempt)))
    saved = store.saved()[0]
    return store.reader(saved, store.read_commit(saved)), shape


def steps_in(folder: Path) -> set[float]:
    """Of the checkpoints that the weights of an export are from."""
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(folder)
    return {float(value) for parameter in loaded.parameters() for value in parameter.detach().unique()}


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from tests.trainer.test_weights import checkpoint
from trainer import weights

def kill(event, arguments):
    if event == "open" and str(arguments[0]).endswith("config.json") and "w" in str(arguments[1]):
        os.kill(os.getpid(), signal.SIGKILL)

output, target = map(Path, sys.argv[1:])
reader, shape = checkpoint(output, 2)
sys.addaudithook(kill)
weights.export(reader, shape, target, torch.float32, file_bytes=20_000, overwrite=True)
"""
"""Ends when all weights are written, and before the index is."""


def test_an_export_over_an_older_one_never_mixes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch

    from trainer import exits, weights

    target = tmp_path / "exports" / "model"
    files = weights.export(*checkpoint(tmp_path, 1), target, torch.float32, file_bytes=20_000)
    assert len(files) > 3
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(target)], cwd=PROJECT, env=ENVIRONMENT, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL
    assert steps_in(target) == {1}
    (leftover,) = target.parent.glob(".*")
    assert len(list(leftover.glob("*.safetensors"))) == len(files)

    job = jobs.write(tmp_path / "job.yaml", tmp_path)
    arguments = ["weights", "--config", str(job), "--output", str(target), "--step", "2"]
    monkeypatch.setattr(sys, "argv", arguments)
    capsys.readouterr()
    assert weights.main() == exits.CONFIG
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{target}: exists and is not empty; ")
    assert "--overwrite" in line
    assert steps_in(target) == {1}
    assert not leftover.exists()

    monkeypatch.setattr(sys, "argv", [*arguments, "--overwrite"])
    assert weights.main() == exits.FINISHED
    assert steps_in(target) == {2}
    assert [path.name for path in target.parent.iterdir()] == ["model"]
    names = {path.name for path in target.iterdir()}
    assert "tokenizer_config.json" in names
    assert not names & set(files), "of the older one, which had other names"


def test_without_its_companions_there_is_no_export(tmp_path: Path) -> None:
    import torch

    from trainer import exits, weights

    reader, shape = checkpoint(tmp_path, 1)
    job = jobs.job(tmp_path, data={"source": None, "prepared": str(tmp_path / "none")})
    with pytest.raises(exits.Failure, match=r"none/index\.json: missing"):
        weights.export(reader, shape, tmp_path / "exports" / "model", torch.float32, job=job)
    assert not list((tmp_path / "exports").iterdir())
