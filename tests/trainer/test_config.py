"""The job file: strict, and all problems at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainer import jobs
from trainer import config, exits

READY_MADE = sorted((Path(__file__).parents[2] / "stacks" / "jobs").glob("*.yaml"))


@pytest.mark.parametrize("path", READY_MADE, ids=lambda path: path.stem)
def test_ready_made_jobs_are_valid(path: Path) -> None:
    assert config.load(path).name


def test_every_problem_is_reported_at_once_with_its_path(tmp_path: Path) -> None:
    path = jobs.write(
        tmp_path / "job.yaml",
        tmp_path,
        stepz=3,
        steps="many",
        model={"heads": 3},
        batch={"micro": 0},
        parallel={"shard_size": 2},
    )
    with pytest.raises(exits.Failure) as caught:
        config.load(path, ["optimiser.rate=1", "broken"])
    assert caught.value.status == exits.CONFIG
    text = str(caught.value)
    for expected in (
        "stepz: unknown key",
        "steps: Input should be a valid integer (got 'many')",
        "model: hidden 32 is not a multiple of heads 3",
        "batch.micro: Input should be greater than 0 (got 0)",
        "parallel: shard_size is for HYBRID_SHARD",
        "optimiser.rate: unknown key",
        "--set broken: expected a.b=value",
        "7 problem(s)",
    ):
        assert expected in text


def test_duplicate_keys_are_refused(tmp_path: Path) -> None:
    path = jobs.write(tmp_path / "job.yaml", tmp_path)
    path.write_text(path.read_text() + "seed: 6\n")
    with pytest.raises(exits.Failure, match="'seed' is given twice"):
        config.load(path)


def test_overrides_reach_nested_values_and_are_typed(tmp_path: Path) -> None:
    path = jobs.write(tmp_path / "job.yaml", tmp_path)
    job = config.load(path, ["precision.compute=bfloat16", "checkpoint.keep_every=100", "metrics.port=null"])
    assert job.precision.compute == "bfloat16"
    assert job.checkpoint.keep_every == 100
    assert job.metrics.port is None


@pytest.mark.parametrize(
    ("text", "message"),
    [("[]", "must be a mapping"), ("a: [", "is not valid YAML"), (None, "cannot be read: No such file")],
)
def test_unusable_files(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "job.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(exits.Failure, match=message) as caught:
        config.load(path)
    assert caught.value.status == exits.CONFIG


def test_what_a_run_may_change(tmp_path: Path) -> None:
    recorded = jobs.job(tmp_path).model_dump(mode="json")
    execution = jobs.job(
        tmp_path, steps=99, parallel={"strategy": "NO_SHARD"}, precision={"compute": "bfloat16"}
    )
    assert config.changed(recorded, execution) == []
    other = jobs.job(tmp_path, seed=6, model={"hidden": 64})
    assert config.changed(recorded, other) == ["seed: was 5, is 6", "model.hidden: was 32, is 64"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"storage": "s3:/b"}, "checkpoint.storage: 's3:/b' is no S3 address: write s3://bucket/prefix"),
        ({"storage": "s3://${NOBODY_SET_THIS}/x"}, "names a variable that the environment does not have"),
        ({"s3": {"part_mib": 65}}, "checkpoint: s3 says how to reach storage, and there is none"),
        ({"storage": "s3://b", "s3": {"part_mib": 4}}, "checkpoint.s3.part_mib"),
        (
            {"storage": "s3://b", "s3": {"patience_seconds": 31}},
            "must be at most half of limits.save_seconds 60",
        ),
    ],
)
def test_contradictions_about_storage_are_refused(
    changes: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(exits.Failure) as caught:
        config.load(jobs.write(tmp_path / "job.yaml", tmp_path, checkpoint=changes))
    assert sentence in str(caught.value)


def test_storage_takes_variables_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKPOINT_BUCKET", "my-bucket")
    job = jobs.job(
        tmp_path, checkpoint={"storage": "s3://${CHECKPOINT_BUCKET}/jobs", "s3": {"patience_seconds": 30}}
    )
    assert job.checkpoint.storage == "s3://my-bucket/jobs"


def test_the_refusal_of_another_job_says_what_may_change() -> None:
    assert {"steps", "parallel", "precision", "checkpoint"} <= set(config.free())
    assert not {"seed", "model", "data", "batch", "optimiser", "name", "output"} & set(config.free())
