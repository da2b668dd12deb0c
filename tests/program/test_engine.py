"""The real engine on a stack file that is wrong: one message, no traceback, nothing made."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from lab.cli.environment import environment
from lab.settings import Lab
from tests.program.recording import ROOT

pytestmark = pytest.mark.lab


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """The local stack's environment, with a backend and an AWS address of its own: nothing answers there."""
    (tmp_path / "backend").mkdir()
    return {
        **os.environ,
        **environment(Lab.from_environment()),
        "PULUMI_BACKEND_URL": f"file://{tmp_path}/backend",
        "PULUMI_HOME": str(tmp_path / "home"),
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    }


def test_a_wrong_stack_file_stops_the_program_before_it_makes_anything(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    content = yaml.safe_load((ROOT / "stacks/Pulumi.local.yaml").read_text())
    content["config"]["shardyard:pools"]["p5"]["zone"] = "use1-az9"
    content["config"]["shardyard:observabilty"] = content["config"].pop("shardyard:observability")
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(yaml.safe_dump(content))

    def pulumi(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["pulumi", *arguments, "--non-interactive"]
        return subprocess.run(
            command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300, check=False
        )

    made = pulumi("stack", "init", "local")
    assert made.returncode == 0, made.stderr
    done = pulumi("preview", "--stack", "local", "--config-file", str(file))
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert "shardyard:observabilty\n      is not a known key\n      → Did you mean observability?" in said
    assert "use1-az9 is none of the network's zones" in said
    assert "Traceback" not in said
    assert "+ 1 to create" in said, "the stack itself, and no resource of it"
