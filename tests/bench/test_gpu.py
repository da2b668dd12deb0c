"""What the GPU script does where there is no GPU, and how it sizes its model."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from bench import gpu
from tests.trainer import jobs
from trainer import config

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so_with_a_status_of_its_own() -> None:
    done = subprocess.run([PROJECT / "bench/gpu.sh"], env=os.environ, text=True, capture_output=True)
    assert done.returncode == gpu.NO_GPU
    assert done.stderr == "bench/gpu.sh: no GPU on this machine, nothing was measured\n"


def test_blocks_fill_the_memory_and_no_more() -> None:
    ends = gpu.SHAPE.embedding + gpu.SHAPE.head
    assert ends + gpu.SHAPE.layers * gpu.SHAPE.block == 8_030_261_248  # Llama 3 8B
    for memory in (80 << 30, 141 << 30):
        blocks = gpu.blocks_for(memory)
        used = (ends + blocks * gpu.SHAPE.block) * gpu.BYTES
        assert used <= gpu.ROOM * memory < used + gpu.SHAPE.block * gpu.BYTES
    assert gpu.blocks_for(1 << 40) == gpu.SHAPE.layers
    with pytest.raises(ValueError, match="no block"):
        gpu.blocks_for(16 << 30)


@pytest.mark.parametrize("variant", gpu.VARIANTS)
def test_every_variant_is_a_job_that_the_trainer_takes(variant: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(gpu.job(tmp_path, tmp_path, 8, gpu.VARIANTS[variant])))
    assert config.load(file).model.layers == 8


@pytest.mark.processes
@pytest.mark.parametrize("change", [{}, {"data": {"source": "nowhere"}}])
def test_a_measured_run_is_killed_and_leaves_nothing(change: dict[str, Any], tmp_path: Path) -> None:
    """Neither processes nor output; also where the trainer ended by itself."""
    output = tmp_path / "run"
    file = jobs.write(tmp_path / "job.yaml", output, steps=100_000, evaluate={"sequences": 0}, **change)
    result = gpu.measure(file, output, steps=2, limit=300)
    assert ("error" in result) == bool(change), result
    assert bool(change) or result["tokens_per_second"] > 0
    assert not output.exists()
    assert "stopped on request" not in output.with_suffix(".log").read_text(), "it was not asked to save"
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [command for command in commands if str(file).encode() in command]
