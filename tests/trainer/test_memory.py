"""Expected memory: of the ready-made jobs, of one block by PyTorch's allocator, of real processes by the kernel."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer import jobs
from tests.trainer.conftest import ENVIRONMENT, PROJECT
from trainer import config, memory, shapes
from trainer.shapes import Shape

BOUND = 0.15
"""Relative, between what is expected and what is counted for real processes."""
JOBS = sorted((PROJECT / "stacks" / "jobs").glob("llama*.yaml"))
PUBLISHED = {
    "llama-2-7b": Shape("llama", 32000, 4096, 32, 32, 32, 128, 11008, False),
    "llama-2-13b": Shape("llama", 32000, 5120, 40, 40, 40, 128, 13824, False),
    "llama-2-70b": Shape("llama", 32000, 8192, 80, 64, 8, 128, 28672, False),
}


def shape_of(job: config.Job) -> Shape:
    return PUBLISHED[job.model.huggingface.name] if job.model.huggingface else shapes.of(job.model)


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_ready_made_jobs_fit_as_their_comments_say(path: Path) -> None:
    text = path.read_text()
    said = re.search(r"^# Memory of a GPU, (\d+) GiB .*--config (\S+) --world (\d+)\)", text, re.MULTILINE)
    assert said is not None
    assert PROJECT / said[2] == path
    job = config.load(path)
    expected = memory.expect(job, shape_of(job), int(said[3]), 8)
    assert round(expected.peak / memory.GIB) == int(said[1])
    for name in ("p4de.24xlarge", "p5.48xlarge"):
        assert expected.fits(memory.DEVICES[name][1])


def test_state_is_sixteen_bytes_a_parameter(tmp_path: Path) -> None:
    """Anyscale's, DeepSpeed's and everybody's number for mixed precision with Adam: 112 GB of state for 7 billion."""
    job = jobs.job(tmp_path, parallel={"strategy": "NO_SHARD"})
    shape = PUBLISHED["llama-2-7b"]
    expected = memory.expect(job, shape, 8, 8)
    assert expected.parameters + expected.gradients + expected.optimiser == 16 * shape.parameters
    spread = memory.expect(jobs.job(tmp_path), shape, 8, 8)
    assert spread.parameters + spread.gradients + spread.optimiser == 2 * shape.parameters


@given(
    st.sampled_from(["FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "NO_SHARD"]),
    st.sampled_from(["none", "selective", "full"]),
    st.sampled_from(["float32", "bfloat16"]),
    st.sampled_from(["sharded", "whole"]),
)
def test_what_saves_memory_saves_memory(strategy: str, mode: str, compute: str, accumulate: str) -> None:
    def peak(world: int, **changes: Any) -> int:
        base = {
            "parallel": {"strategy": strategy, "accumulate": accumulate}, "recompute": {"mode": mode},
            "precision": {"compute": compute}, "batch": {"sequences": 64, "micro": 1},
        }  # fmt: skip
        job = jobs.job(Path("/nowhere"), **jobs.merged(base, changes))
        return memory.expect(job, PUBLISHED["llama-2-7b"], world, 8).peak

    now = peak(16)
    assert peak(32) <= now
    assert peak(16, batch={"micro": 2}) > now
    assert peak(16, recompute={"mode": "full"}) <= now
    assert peak(16, precision={"compute": "bfloat16"}) <= now
    assert peak(16, parallel={"strategy": "NO_SHARD"}) >= now
    assert peak(16, parallel={"strategy": "FULL_SHARD"}) <= now
    assert peak(16, parallel={"tensor": 2}, batch={"micro": 2}) <= peak(16, batch={"micro": 2})
    assert peak(16, parallel={"cpu_offload": True}) < now


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "trainer.memory", *arguments], cwd=PROJECT, env=ENVIRONMENT,
        text=True, capture_output=True,
    )  # fmt: skip


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(PROJECT / "stacks/jobs/llama2-70b.yaml")
    assert memory.main(["--config", file, "--world", "8", "128"]) == 0
    first, header, eight, many = capsys.readouterr().out.splitlines()
    assert first.startswith("llama2-70b: 68,976,648,192 parameters")
    assert len(header) == len(eight) == len(many)
    assert re.split("  +", header.strip())[-2:] == ["p5e.48xlarge", "p5en.48xlarge"]
    assert eight.count("too much") == 5
    assert re.split("  +", many.strip())[-3:] == ["fits", "fits", "fits"]

    assert memory.main(["--config", file, "--world", "16", "--json", "--set", "batch.micro=1"]) == 0
    facts = json.loads(capsys.readouterr().out)["16"]
    assert facts["peak"] == sum(facts["parts"].values())
    assert facts["fits"] == ["p5e.48xlarge", "p5en.48xlarge"]

    assert memory.main(["--config", str(PROJECT / "stacks/jobs/llama2-7b-tune.yaml"), "--world", "8"]) == 2
    assert "no config.json there" in capsys.readouterr().err


def test_the_command_needs_no_torch() -> None:
    done = command("--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout
    loaded = "import sys, trainer.memory; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], cwd=PROJECT).returncode == 0


@pytest.mark.processes  # imports torch
@pytest.mark.parametrize("compute", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("model", "mode"),
    [
        ({}, "none"),
        ({}, "full"),
        ({}, "selective"),
        ({"family": "mistral", "sliding_window": 64}, "none"),
        ({"family": "qwen2", "kv_heads": 4}, "none"),
    ],
)
def test_what_blocks_keep(
    model: dict[str, Any],
    mode: str,
    compute: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """PyTorch's allocator, over a forward pass of the blocks and a last norm, and then the backward pass's peak."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from trainer import attention, norms, products, recompute, swiglu
    from trainer import model as models

    monkeypatch.setattr(products, "widened", lambda: False)  # as on a GPU
    hidden, tokens = 64, 512
    sizes = {"vocabulary": 64, "hidden": hidden, "layers": 3, "feed_forward": 160, "sequence": tokens // 2}
    job = jobs.job(
        tmp_path, model=sizes | model, batch={"sequences": 2, "micro": 2}, recompute={"mode": mode},
        precision={"compute": compute},
    )  # fmt: skip
    built: Any = models.build(models.shape(job.model))
    attention.apply(built, None)
    norms.apply(built)
    swiglu.apply(built)
    models.materialise(built, torch.device("cpu"))
    models.initialise(built, 0.02, 1)
    built.to(getattr(torch, compute))
    recompute.apply(built, job.recompute)
    inputs = torch.ones(2, tokens // 2, dtype=torch.int64)
    built.model(input_ids=inputs, use_cache=False)  # what is made once

    gc.collect()
    gc.disable()  # what earlier tests left would be freed in between, and counted
    request.addfinalizer(gc.enable)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as forward:
        last = built.model(input_ids=inputs, use_cache=False).last_hidden_state
    gradient = torch.ones_like(last)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as backward:
        last.backward(gradient)

    alive, work = memory.activations(job, shapes.of(job.model))
    width = memory.WIDTHS[compute]
    rotary = 2 * width * tokens // 2 * hidden // 4  # cosines and sines, once for all blocks
    norm = tokens * (2 * width * hidden + 4)
    assert allocated(forward)[-1] == pytest.approx(alive + norm + rotary, rel=0.02)
    assert max(allocated(backward)) < 1.2 * work


def allocated(profiled: Any) -> list[int]:
    """Bytes after each allocation and each release."""
    total, running = 0, []
    for event in profiled.profiler.kineto_results.events():
        if event.name() == "[memory]":
            total += event.nbytes()
            running.append(total)
    return running


@pytest.mark.processes
def test_the_pieces_of_logits_are_those_of_the_loss() -> None:
    from trainer import loss

    assert loss.NUMBERS == memory.LOGITS


WORLDS = (1, 2, 4)


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[config.Job, list[dict[str, int]]]]:
    """A model of 86 million parameters, published in two files, loaded and trained by 1, 2 and 4 processes."""
    import torch
    from safetensors.torch import save_file

    from trainer import model as models
    from trainer.data import prepare

    folder = tmp_path_factory.mktemp("footprint")
    published = folder / "published"
    published.mkdir()
    sizes = {
        "vocabulary": 384, "hidden": 768, "layers": 12, "heads": 12, "kv_heads": 12, "feed_forward": 2048,
    }  # fmt: skip
    shape = models.shape(jobs.job(folder, model=sizes).model)
    shape.save_pretrained(published)
    tensors = {
        name: torch.full(one.shape, 0.01, dtype=torch.bfloat16)
        for name, one in models.build(shape).state_dict().items()
    }
    names = sorted(tensors)
    for number, some in enumerate((names[::2], names[1::2]), start=1):
        file = published / f"model-{number:05d}-of-00002.safetensors"
        save_file({name: tensors[name] for name in some}, file, metadata={"format": "pt"})
    prepare.prepare("python-documentation", "byt5", 0.05, folder / "data")

    plan = {
        str(world): str(
            jobs.write(
                folder / f"{world}.yaml",
                folder / f"output-{world}",
                model={**dict.fromkeys(jobs.SHAPE), "sequence": 32, "huggingface": str(published)},
                data={"source": None, "prepared": str(folder / "data")},
                batch={"sequences": 4, "micro": 1},
                evaluate={"sequences": 0},
                limits={"start_seconds": 500, "collective_seconds": 500, "threads": 1},
            )
        )
        for world in WORLDS
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    at_once = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.trainer.footprint", str(folder / "plan.json"), str(folder / "results.json")],
        cwd=PROJECT, env=ENVIRONMENT | at_once, text=True, capture_output=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    results = json.loads((folder / "results.json").read_text())
    return {world: (config.load(Path(plan[str(world)])), results[str(world)]) for world in WORLDS}


@pytest.mark.processes
@pytest.mark.parametrize("world", WORLDS)
def test_real_processes_follow_the_arithmetic(
    world: int, counted: dict[int, tuple[config.Job, list[dict[str, int]]]]
) -> None:
    job, ranks = counted[world]
    shape = shapes.of(job.model)
    expected = memory.expect(job, shape, world, world, "cpu")
    print(world, asdict(expected), ranks)
    assert len(ranks) == world
    for rank in ranks:
        assert rank["loaded"] == pytest.approx(expected.parameters, rel=BOUND)
        assert rank["loading"] == pytest.approx(expected.loading, rel=BOUND)
        assert rank["stepped"] == pytest.approx(
            expected.parameters + expected.optimiser + expected.gradients, rel=BOUND
        )
        assert rank["stepping"] == pytest.approx(expected.peak, rel=BOUND)
        if world > 1:
            assert rank["loading"] < 4 * shape.parameters * (1 + BOUND) / world, "held more than its share"
