"""Labels, taints, tags, environment variables and networks that Kubernetes or AWS refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.settings import SettingsError
from tests.cluster.stack_files import JOB as RIGHT_JOB
from tests.cluster.stack_files import changed, load, problems

GROUP = "nodeGroups__p5__"
JOB = "training__jobs__llama__"


@pytest.mark.parametrize(
    ("changes", "path", "said"),
    [
        ({f"{GROUP}labels": {"team name": "a"}}, "nodeGroups.p5.labels.team name", "not a label key"),
        ({f"{GROUP}labels": {"": "a"}}, "nodeGroups.p5.labels.", "not a label key"),
        ({f"{GROUP}labels": {"a/b/c": "a"}}, "nodeGroups.p5.labels.a/b/c", "not a label key"),
        ({f"{GROUP}labels": {"x" * 64: "a"}}, f"nodeGroups.p5.labels.{'x' * 64}", "not a label key"),
        ({f"{GROUP}labels": {"team": ""}}, "nodeGroups.p5.labels.team", "not a label value"),
        ({f"{GROUP}labels": {"team": "a b"}}, "nodeGroups.p5.labels.team", "not a label value"),
        ({f"{GROUP}labels": {"team": "x" * 64}}, "nodeGroups.p5.labels.team", "not a label value"),
        *[
            ({f"{place}labels": {key: "a"}}, f"{place.replace('__', '.')}labels.{key}", "set by")
            for place in (GROUP, "systemNodeGroup__")
            for key in (
                "kubernetes.io/hostname",
                "node.kubernetes.io/instance-type",
                "topology.k8s.io/zone",
                "eks.amazonaws.com/nodegroup",
                "shardyard.dev/pool",
                "nvidia.com/gpu.present",
                "vpc.amazonaws.com/efa.present",
            )
        ],
        ({f"{GROUP}taints": [{"key": ""}]}, "nodeGroups.p5.taints[0].key", "not a taint key"),
        (
            {f"{GROUP}taints": [{"key": "a", "value": "a b"}]},
            "nodeGroups.p5.taints[0].value",
            "not a taint value",
        ),
        (
            {f"{GROUP}taints": [{"key": "a", "effect": "NoSchedule"}]},
            "nodeGroups.p5.taints[0].effect",
            "none of",
        ),
        ({f"{GROUP}taints": [{"key": "a"}, {"key": "a"}]}, "nodeGroups.p5.taints", "twice"),
        ({f"{GROUP}taints": [{"key": "nvidia.com/gpu"}]}, "nodeGroups.p5.taints", "twice"),
        *[
            ({f"{place}tags": {key: "a"}}, f"{place.replace('__', '.')}tags.{key}", said)
            for place in ("", GROUP, "systemNodeGroup__")
            for key, said in (
                ("aws:team", "reserved for AWS"),
                ("AWS:team", "reserved for AWS"),
                ("name", "this program sets"),
                ("shardyard:stack", "this program sets"),
                ("a*b", "not a tag key"),
                ("x" * 129, "not a tag key"),
            )
        ],
        ({"tags": {"team": "x" * 257}}, "tags.team", "not a tag value"),
        ({"tags": {"team": "a", "Team": "b"}}, "tags", "differ in case only"),
        ({"tags": {f"t{n}": "a" for n in range(49)}}, "tags", "room for 48"),
        (
            {"tags": {f"t{n}": "a" for n in range(40)}, f"{GROUP}tags": {f"u{n}": "a" for n in range(9)}},
            "nodeGroups.p5.tags",
            "51 tags",
        ),
        (
            {f"{JOB}environment": {"MY VAR": "a"}},
            "training.jobs.llama.environment.MY VAR",
            "environment variable",
        ),
        ({f"{JOB}environment": {"1A": "a"}}, "training.jobs.llama.environment.1A", "environment variable"),
        ({f"{JOB}environment": {"A=B": "a"}}, "training.jobs.llama.environment.A=B", "environment variable"),
        ({f"{JOB}environment": {"A": 1}}, "training.jobs.llama.environment.A", "not text"),
        ({"systemNodeGroup__nodes": {"desired": 0, "max": 2}}, "systemNodeGroup.nodes", "min ≤ desired"),
        (
            {"systemNodeGroup__nodes": {"min": 0, "desired": 1, "max": 2}},
            "systemNodeGroup.nodes.min",
            "less than 1",
        ),
        *[
            ({"kubernetes__publicAccessCidrs": [cidr]}, "kubernetes.publicAccessCidrs[0]", "public address")
            for cidr in ("10.1.0.0/16", "172.16.0.0/12", "192.168.1.0/24", "100.64.0.0/16", "169.254.0.0/16")
        ],
        (
            {"kubernetes__publicAccessCidrs": [f"203.0.113.{n}/32" for n in range(41)]},
            "kubernetes.publicAccessCidrs",
            "at most 40",
        ),
    ],
)
def test_what_is_refused_later_is_refused_now(
    tmp_path: Path, changes: dict[str, Any], path: str, said: str
) -> None:
    found = problems(tmp_path, changed(**changes))
    assert path in found, found
    assert said in found[path].what


def test_ordinary_ones_are_fine(tmp_path: Path) -> None:
    values = changed(
        tags={"cost centre": "R&D".replace("&", "+"), "Équipe": "é", **{f"t{n}": "" for n in range(46)}},
        nodeGroups__p5__labels={"example.com/team": "a.b_C-1", "nvidia.com/mig.config": "all"},
        nodeGroups__p5__taints=[{"key": "team", "value": "a"}, {"key": "team", "effect": "NO_EXECUTE"}],
        training__jobs__llama__environment={"HF_HOME": "/fsx", "my.name-1": ""},
        kubernetes__publicAccessCidrs=["0.0.0.0/0", "203.0.113.0/24"],
    )
    assert problems(tmp_path, values) == {}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  hidden:", "  hiden:", "model.hiden: unknown key"),
        ("steps: 200", "steps: -5", "steps"),
        ("seed: 17", "seed: 17\nseed: 18", "given twice"),
        ("name: llama", "name: [", "not valid YAML"),
        ("name: llama", "[a]: b", "not a job file"),
        ("name: llama", 'a: "\\UFFFFFFFF"', "not a job file"),
        ("name: llama", "name: " + "[" * 5000, "not a job file"),
        ("output: /fsx/jobs", "output: /tmp/../fsx2/jobs", "outside the file system"),
    ],
)
def test_a_job_file_is_what_the_trainer_accepts(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in RIGHT_JOB
    (tmp_path / "other.yaml").write_text(RIGHT_JOB.replace(old, new, 1))
    with_file = changed(training__jobs__llama__config="other.yaml")
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, with_file)
    assert any(said in problem.what for problem in caught.value.problems), caught.value
