"""Rehearsals: every ready-made job at its true size, and jobs that can't be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import soak
from tests.trainer import jobs
from tests.trainer.test_memory import JOBS, PROJECT, PUBLISHED
from trainer import config, exits, memory

pytestmark = pytest.mark.processes  # imports torch

BOUND = 0.1
"""Relative, between what is counted and the arithmetic, which assumes that transfers overlap."""


SOAK = {
    "llama2-13b", "llama2-13b-tune", "llama2-7b-tune", "llama2-70b-tune",  # as their neighbours, of another size
    "context", "full", "float32",  # in the gate together with others, or in test_memory.py
}  # fmt: skip


@pytest.fixture
def as_published(tmp_path: Path) -> Callable[[str], list[str]]:
    """Overrides that put a folder with the `config.json` of a published model in the place of the job's."""

    def overrides(name: str) -> list[str]:
        shape = PUBLISHED[name]
        facts = {
            "model_type": "llama", "vocab_size": shape.vocabulary, "hidden_size": shape.hidden,
            "num_hidden_layers": shape.layers, "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads, "intermediate_size": shape.feed_forward,
        }  # fmt: skip
        (tmp_path / "config.json").write_text(json.dumps(facts))
        return [f"model.huggingface={tmp_path}"]

    return overrides


@pytest.mark.parametrize("name", soak.cases([path.stem for path in JOBS], SOAK))
def test_ready_made_jobs_play_at_their_true_size(name: str, as_published: Callable[[str], list[str]]) -> None:
    from trainer import rehearsal

    (path,) = (path for path in JOBS if path.stem == name)
    said = re.search(r"^# Memory of a GPU, .* --world (\d+)\)", path.read_text(), re.MULTILINE)
    assert said is not None
    job = config.load(path)
    if job.model.huggingface is not None:
        job = config.load(path, as_published(job.model.huggingface.name))
    found = rehearsal.rehearse(job, int(said[1]))
    assert found.peak == pytest.approx(found.expected, rel=BOUND)
    assert "p5.48xlarge" in found.facts()["fits"]
    state = 16 * found.parameters / int(said[1])
    if job.parallel.strategy == "FULL_SHARD":  # what stays between steps: all but the gradients
        assert found.stages["update"]["stays"] == pytest.approx(state * 3 / 4, rel=0.01)


COMBINATIONS: dict[str, dict[str, Any]] = {
    "context": {"parallel": {"context": 2}},
    "context-tensor": {"parallel": {"context": 4, "tensor": 2}},
    "offload": {"parallel": {"cpu_offload": True}},
    "whole": {"parallel": {"accumulate": "whole"}},
    "grad-op": {"parallel": {"strategy": "SHARD_GRAD_OP"}},
    "no-shard": {"parallel": {"strategy": "NO_SHARD"}},
    "hybrid": {"parallel": {"strategy": "HYBRID_SHARD", "shard_size": 8, "tensor": 4}},
    "full": {"recompute": {"mode": "full"}},
    "every-other": {"recompute": {"mode": "selective", "every": 2}},
    "float32": {"precision": {"compute": "float32"}},
    "tied": {"model": {"tied_embeddings": True}},
    "window": {"model": {"family": "mistral", "sliding_window": 1024}},
}
SIZES = {
    "vocabulary": 128256, "hidden": 4096, "layers": 8, "heads": 32, "kv_heads": 8, "feed_forward": 14336,
    "sequence": 8192,
}  # fmt: skip


@pytest.mark.parametrize("name", soak.cases(COMBINATIONS, SOAK))
def test_the_arithmetic_holds_for_every_way_to_save_memory(
    name: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    from trainer import rehearsal

    base = {
        "model": SIZES, "batch": {"sequences": 64, "micro": 1}, "precision": {"compute": "bfloat16"},
        "parallel": {"prefetch": 2},
    }  # fmt: skip
    found = rehearsal.rehearse(jobs.job(tmp_path, **jobs.merged(base, COMBINATIONS[name])), 16)
    assert not [str(one.message) for one in recwarn if "FSDP" in str(one.message)], (
        "128 processes would say it"
    )
    assert found.peak == pytest.approx(found.expected, rel=0.15)


def test_a_job_that_does_not_come_out_even_is_refused(tmp_path: Path) -> None:
    from trainer import rehearsal

    with pytest.raises(exits.Failure, match="does not divide the 3 processes") as failure:
        rehearsal.rehearse(jobs.job(tmp_path, parallel={"tensor": 2}), 3)
    assert failure.value.status == exits.CONFIG
    assert rehearsal.rehearse(jobs.job(tmp_path), 2).peak, "a refused one leaves nothing behind"


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    from trainer import rehearsal

    job = ["--config", str(PROJECT / "stacks/jobs/llama3-8b.yaml"), "--set", "model.layers=2"]
    assert rehearsal.main([*job, "--world", "16"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("llama3-8b: 1,48")
    assert [line.split("  ")[0] for line in lines[2:9]] == [
        "build", "optimiser", "forward 1", "backward 1", "forward 2", "backward 2", "update",
    ]  # fmt: skip
    assert lines[-1].startswith("fits p4de.24xlarge") or lines[-1].startswith("fits p4d.24xlarge")

    assert rehearsal.main([*job, "--world", "16", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["peak"] == max(stage["highest"] for stage in facts["stages"].values())
    assert set(facts["fits"]) <= set(memory.DEVICES)

    assert rehearsal.main([*job, "--world", "16", "--set", "parallel.tensor=3"]) == exits.CONFIG
    assert "does not divide" in capsys.readouterr().err
