"""A stack file that is right, to be spoilt by one test at a time."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from cluster.settings import Problem, Settings, SettingsError, load_stack_file

NOW = datetime(2026, 12, 1, tzinfo=UTC)
JOB = (Path(__file__).parents[2] / "stacks/jobs/local.yaml").read_text().replace("llama-local", "llama")
RIGHT: dict[str, Any] = {
    "region": "us-east-1",
    "network": {"cidr": "10.40.0.0/16", "zones": ["use1-az4", "use1-az6"]},
    "kubernetes": {
        "version": "1.34",
        "amiReleaseVersion": "1.34.9-20260801",
        "addons": {
            "vpc-cni": "v1.22.4-eksbuild.3",
            "kube-proxy": "v1.34.6-eksbuild.21",
            "coredns": "v1.12.4-eksbuild.29",
            "eks-pod-identity-agent": "v1.3.10-eksbuild.3",
            "aws-fsx-csi-driver": "v1.9.0-eksbuild.1",
        },
    },
    "systemNodeGroup": {"instanceType": "m7i.xlarge", "nodes": {"min": 2, "desired": 2, "max": 4}},
    "nodeGroups": {
        "p5": {
            "instanceType": "p5.48xlarge",
            "zone": "use1-az6",
            "nodes": {"min": 0, "desired": 16, "max": 16},
            "capacity": {"kind": "odcr", "create": {"nodes": 16}},
        }
    },
    "storage": {"fileSystem": {"zone": "use1-az6", "capacityGib": 4800}},
    "image": {"base": f"example.com/base@sha256:{'a' * 64}"},
    "training": {
        "jobs": {"llama": {"config": "job.yaml", "nodeGroup": "p5", "workers": {"min": 16, "max": 16}}}
    },
}


def changed(**changes: Any) -> dict[str, Any]:
    """RIGHT with values at dotted paths (a__b for a.b) set, or removed where the value is Ellipsis."""
    values = copy.deepcopy(RIGHT)
    for path, value in changes.items():
        *parents, key = path.split("__")
        node = values
        for part in parents:
            node = node.setdefault(part, {})
        if value is ...:
            del node[key]
        else:
            node[key] = value
    return values


def write(folder: Path, values: dict[str, Any], stack: str = "test") -> Path:
    """The stack file, and a job file beside it."""
    (folder / "job.yaml").write_text(JOB)
    file = folder / f"Pulumi.{stack}.yaml"
    file.write_text(yaml.safe_dump({"config": {f"shardyard:{key}": value for key, value in values.items()}}))
    return file


def load(folder: Path, values: dict[str, Any], stack: str = "test", now: datetime = NOW) -> Settings:
    """Through a file, as commands do."""
    return load_stack_file(write(folder, values, stack), now=now)


def problems(folder: Path, values: dict[str, Any], **options: Any) -> dict[str, Problem]:
    """What is wrong, by path without the project's name; nothing if nothing is."""
    try:
        load(folder, values, **options)
    except SettingsError as error:
        return {problem.path.removeprefix("shardyard:"): problem for problem in error.problems}
    return {}
