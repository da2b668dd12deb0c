"""The real engine on a stack file that is wrong: one message, no traceback, nothing made."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from cluster.settings.reading import read
from lab.cli.environment import environment
from lab.settings import Lab
from tests.cluster.test_reading import ALIKE
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
    content["config"]["shardyard:nodeGroups"]["p5"]["zone"] = "use1-az9"
    content["config"]["shardyard:observabilty"] = content["config"].pop("shardyard:observability")
    project = tmp_path / "project"
    (project / "stacks").mkdir(parents=True)
    for entry in ("Pulumi.yaml", "__main__.py", "cluster", "workloads", "trainer"):
        (project / entry).symlink_to(ROOT / entry)
    (project / "stacks/jobs").symlink_to(ROOT / "stacks/jobs")
    (project / "stacks/Pulumi.local.yaml").write_text(yaml.safe_dump(content))

    def pulumi(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["pulumi", *arguments, "--non-interactive"]
        return subprocess.run(
            command, cwd=project, env=variables, capture_output=True, text=True, timeout=300, check=False
        )

    made = pulumi("stack", "init", "local")
    assert made.returncode == 0, made.stderr
    done = pulumi("preview", "--stack", "local")
    said = done.stdout + done.stderr
    assert done.returncode == 1
    assert "shardyard:observabilty\n      is not a known key\n      → Did you mean observability?" in said
    assert "use1-az9 is none of the network's zones" in said
    assert "Traceback" not in said
    assert "+ 1 to create" in said, "the stack itself, and no resource of it"


def test_the_engine_reads_what_our_reader_accepts_in_the_same_way(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    """Scalars of all kinds and the ways to write texts, through `pulumi config` and through ours."""
    (tmp_path / "project/stacks").mkdir(parents=True)
    (tmp_path / "project/Pulumi.yaml").symlink_to(ROOT / "Pulumi.yaml")
    file = tmp_path / "project/stacks/Pulumi.local.yaml"
    # The engine writes the file anew when it creates a stack, a quoted "<<" as !!merge.
    scalars = [text for text, _ in ALIKE if not text.startswith(("[", "{")) and "<<" not in text]
    lines = [f"    k{number}: {text}" for number, text in enumerate(scalars)]
    lines += [
        "    folded: >-",
        "      a",
        "      b",
        "    block: |",
        "      a",
        "       b",
        "    plain: a",
        "      b",
    ]
    lines += ["    anchor: &q {a: [1, b]}", "    alias: *q", '    escaped: "\\u00e9\\t\\x41"']
    file.write_text("\n".join(["config:", "  shardyard:all:", *lines, ""]))

    def pulumi(*arguments: str) -> str:
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=file.parent.parent,
            env=variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        return done.stdout

    before = read(file)["config"]["shardyard:all"]
    pulumi("stack", "init", "local")
    seen = json.loads(pulumi("config", "--json", "--stack", "local"))["shardyard:all"]["value"]
    assert json.loads(seen) == before
    assert read(file)["config"]["shardyard:all"] == before
