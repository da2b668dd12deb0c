"""`python -m bench` as a command, and the contenders' job."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bench import __main__ as command
from bench import checkpoint
from bench.contenders import ours
from bench.inputs import Inputs, Sizes
from trainer import config


def test_an_unknown_benchmark_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        command.main(["trainign"])
    assert end.value.code == 2
    assert "no benchmark trainign: there are training, checkpoint, data" in capsys.readouterr().err


def test_missing_peers_are_said_with_the_command_that_installs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHARDYARD_CACHE", str(tmp_path))
    assert command.main(["training"]) == 2
    assert "python3 -m lab.bootstrap --bench" in capsys.readouterr().err


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_our_jobs_are_jobs(tmp_path: Path, precision: str) -> None:
    sizes = Sizes(64, 8, 1, 2, 1, 16, sequence=8, sequences=4, micro=2)
    for content in (
        ours.job(Inputs(tmp_path, sizes), tmp_path, precision),
        checkpoint.job(tmp_path, asynchronous=precision == "bfloat16"),
    ):
        file = tmp_path / "job.yaml"
        file.write_text(yaml.safe_dump(content))
        assert config.load(file).output == tmp_path
