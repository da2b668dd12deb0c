"""The Job that prepares data: every part has its pod, and only what can help is tried again."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from cluster.settings.sections import DataPreparationJob
from trainer import exits
from trainer.data import prepare
from workloads.preparation import WRONG, manifest

IMAGE = f"registry/trainer@sha256:{'a' * 64}"


def preparation(**changes: Any) -> DataPreparationJob:
    return DataPreparationJob(
        **{"source": "/fsx/texts", "output": "/fsx/data/corpus", "parts": 16, **changes}
    )


def container(document: dict[str, Any]) -> dict[str, Any]:
    (only,) = document["spec"]["template"]["spec"]["containers"]
    return dict(only)


def test_every_part_has_a_pod_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = manifest("corpus", "training", preparation(parallelism=4), IMAGE)["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 16, 4)
    assert manifest("corpus", "training", preparation(), IMAGE)["spec"]["parallelism"] == 16
    assert "--parts=16" in container({"spec": spec})["args"]
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "15")  # what Kubernetes sets in the last one
    assert prepare.which(None, 16) == (15, 16)


def test_the_program_takes_the_arguments(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Any) -> None:
    asked = preparation(source=str(tmp_path), output=str(tmp_path), parts=1, options=("--deduplicate",))
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    arguments = container(manifest("corpus", "training", asked, IMAGE))["args"]
    monkeypatch.setattr("sys.argv", ["prepare", *arguments])
    assert prepare.main() == exits.CONFIG
    assert "no .txt, .jsonl" in capsys.readouterr().err, "all arguments are known; the folder is empty"


def test_only_what_can_help_is_tried_again() -> None:
    document = manifest("corpus", "training", preparation(), IMAGE)
    ignore, fail = document["spec"]["podFailurePolicy"]["rules"]
    assert ignore["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert fail["action"] == "FailJob"
    assert fail["onExitCodes"]["values"] == [WRONG] == [exits.CONFIG]
    assert fail["onExitCodes"]["containerName"] == container(document)["name"]
    assert document["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    "change", [{"parts": 0}, {"workers": 0}, {"held_out": 1.0}, {"output": "data"}, {"part": 3}]
)
def test_wrong_settings_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        preparation(**change)
