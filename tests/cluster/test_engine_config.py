"""The program reads the file itself, and compares it with what the engine hands over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.settings import SettingsError, from_engine, load_stack_file
from tests.cluster.stack_files import NOW, RIGHT, changed, load, write


def engine(values: dict[str, Any]) -> dict[str, str]:
    """The configuration as the engine's SDK has it: texts as they are, everything else as JSON."""
    return {
        f"shardyard:{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in values.items()
    }


def test_the_engine_s_copy_says_the_same_as_the_file(tmp_path: Path) -> None:
    from_file = load(tmp_path, RIGHT)
    config = {**engine(RIGHT), "aws:region": "elsewhere"}  # another package's configuration is not ours
    assert from_engine("test", config, tmp_path, now=NOW) == from_file


@pytest.mark.parametrize(
    ("other", "key"),
    [
        (changed(region="us-west-2"), "region"),
        (changed(nodeGroups__p5__nodes__max=17), "nodeGroups"),
        (changed(nodeGroups__p5__placementGroup=1), "nodeGroups"),
        (changed(tags={"team": "a"}), "tags"),
        (changed(training=...), "training"),
        ({**RIGHT, "network": "{not JSON"}, "network"),
    ],
)
def test_another_value_in_the_engine_is_refused(tmp_path: Path, other: dict[str, Any], key: str) -> None:
    load(tmp_path, RIGHT)
    with pytest.raises(SettingsError) as caught:
        from_engine("test", engine(other), tmp_path, now=NOW)
    assert [problem.path for problem in caught.value.problems] == [f"shardyard:{key}"]


def test_secrets_come_from_the_engine(tmp_path: Path) -> None:
    secret = {"secure": "v1:abc=:def="}
    path = "training__jobs__llama__environment"
    file = write(tmp_path, changed(**{path: {"HF_TOKEN": secret, "A": "b"}}))
    settings = from_engine(
        "test", engine(changed(**{path: {"HF_TOKEN": "hf_x", "A": "b"}})), tmp_path, now=NOW
    )
    assert settings.training.jobs["llama"].environment == {"HF_TOKEN": "hf_x", "A": "b"}
    without = load_stack_file(file, now=NOW)
    assert without.training.jobs["llama"].environment["HF_TOKEN"] == "(secret)"
    file = write(tmp_path, changed(tags=secret, region=secret))
    settings = from_engine("test", engine(changed(tags={"team": "a"})), tmp_path, now=NOW)
    assert (settings.tags, settings.region) == ({"team": "a"}, "us-east-1")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("region: us-east-1", "Write shardyard:region."),
        ("shardyrd:region: us-east-1", "Write shardyard:region."),
        ("Shardyard:region: us-east-1", "Write shardyard:region."),
    ],
)
def test_a_key_without_the_project_s_prefix_is_refused(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "Pulumi.test.yaml"
    file.write_text(f"config:\n  aws:region: us-east-1\n  {line}\n")
    with pytest.raises(SettingsError) as caught:
        load_stack_file(file)
    assert [problem.todo for problem in caught.value.problems] == [said]
