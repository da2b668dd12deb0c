"""The job file: strict, and all problems at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        "model: heads 3 is not a multiple of kv_heads 2",
        "batch.micro: Input should be greater than 0 (got 0)",
        "parallel: shard_size is for HYBRID_SHARD",
        "optimiser.rate: unknown key",
        "--set broken: expected a.b=value",
        "8 problem(s)",
    ):
        assert expected in text


Fault = tuple[dict[str, Any], str]
FAULTS: list[Fault] = [
    ({"stepz": 3}, "stepz: unknown key"),
    ({"name": "A b"}, "name: String should match pattern"),
    ({"seed": "five"}, "seed: Input should be a valid integer (got 'five')"),
    ({"optimiser": {"beta1": 2}}, "optimiser.beta1: Input should be less than or equal to 1 (got 2)"),
    ({"schedule": {"warmup": 12}}, "schedule.warmup 12 leaves nothing of 12 steps"),
    ({"schedule": {"ceiling": 1}}, "schedule.ceiling: unknown key"),
    ({"batch": {"micro": "two"}}, "batch.micro: Input should be a valid integer (got 'two')"),
    ({"evaluate": {"every": 5, "sequences": 0}}, "evaluate.every has no evaluate.sequences to read"),
    ({"recompute": "full"}, "recompute: Input should be a valid dictionary"),
    ({"watch": {"non_finite": "roll_back"}}, "watch.non_finite roll_back needs checkpoint.every or"),
    ({"watch": {"spike": 0.5}}, "watch.spike: Input should be greater than 1 (got 0.5)"),
    ({"metrics": {"profile": {"steps": 3}}}, "metrics.profile.from: is required"),
    ({"metrics": {"port": "any"}}, "metrics.port: Input should be a valid integer"),
    (
        {"checkpoint": {"s3": {"part_mib": 1}}},
        "checkpoint.s3.part_mib: Input should be greater than or equal to 5",
    ),
    (
        {"checkpoint": {"storage": "s3://b", "s3": {"patience_seconds": 31}}},
        "checkpoint.s3.patience_seconds 31 must be at most half of limits.save_seconds 60",
    ),
    ({"limits": {"threads": 0}}, "limits.threads: Input should be greater than 0 (got 0)"),
    ({"data": {"prepared": "/folder"}}, "data: give exactly one of prepared, sources and source"),
    ({"data": {"download": True}}, "data: download needs cache: FOLDER"),
    ({"data": {"held_out": 2}}, "data.held_out: Input should be less than or equal to 1 (got 2)"),
    ({"model": {"layers": None}}, "model: missing layers (or give huggingface: FOLDER)"),
    ({"model": {"kv_heads": 3}}, "model: heads 4 is not a multiple of kv_heads 3"),
    ({"model": {"sliding_window": 8}}, "model: sliding_window is for mistral, not for llama"),
    ({"model": {"norm_epsilon": "small"}}, "model.norm_epsilon: Input should be a valid number"),
    (
        {"model": {"feed_forward": 65}, "parallel": {"tensor": 2}},
        "parallel.tensor 2: does not divide model.feed",
    ),
    ({"model": {"sequence": 62}, "parallel": {"context": 4}}, "does not divide model.sequence 62"),
    ({"parallel": {"context": 4}, "compile": True}, "compile: what parallel.context exchanges"),
    ({"parallel": {"prefetch": 0}}, "parallel.prefetch: Input should be greater than 0 (got 0)"),
    ({"parallel": {"shard_size": 2}}, "parallel: shard_size is for HYBRID_SHARD"),
    (
        {"parallel": {"accumulate": "half"}},
        "parallel.accumulate: Input should be 'sharded' or 'whole' (got 'half')",
    ),
    ({"precision": {"float8": "rowwise"}}, "precision: float8 needs compute: bfloat16"),
    (
        {"precision": {"reduce": "int8"}},
        "precision.reduce: Input should be 'float32' or 'bfloat16' (got 'int8')",
    ),
]
"""Changes to the tiny job, any of them together, each with what is to be said of it whatever else is wrong."""


@given(faults=st.lists(st.sampled_from(FAULTS), min_size=1, unique_by=lambda fault: fault[1]))
def test_every_fault_is_named_whatever_else_is_wrong(
    tmp_path_factory: pytest.TempPathFactory, faults: list[Fault]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    changes: dict[str, Any] = {}
    for change, _ in faults:
        changes = jobs.merged(changes, change)
    with pytest.raises(exits.Failure) as caught:
        config.load(jobs.write(folder / "faults.yaml", folder, **changes))
    first, *lines = str(caught.value).splitlines()
    for _, sentence in faults:
        assert sum(sentence in line for line in lines) == 1, sentence
    assert first.endswith(f": {len(lines)} problem(s)")


def test_what_a_wrong_value_would_decide_is_not_judged(tmp_path: Path) -> None:
    path = jobs.write(
        tmp_path / "job.yaml",
        tmp_path,
        model={"layers": "two", "kv_heads": 0},
        data={"source": 3},
        parallel={"shard_size": 3, "strategy": "HALF_SHARD", "tensor": 0},
        checkpoint={"every": -1},
        watch={"non_finite": "roll_back"},
    )
    with pytest.raises(exits.Failure) as caught:
        config.load(path)
    wrong = [line.split(":")[0].strip() for line in str(caught.value).splitlines()[1:]]
    assert wrong == [
        "model.layers", "model.kv_heads", "data.source", "parallel.tensor", "parallel.strategy", "checkpoint.every",
    ]  # fmt: skip


def test_duplicate_keys_are_refused(tmp_path: Path) -> None:
    path = jobs.write(tmp_path / "job.yaml", tmp_path, stepz=3)
    path.write_text(path.read_text() + "seed: 6\n")
    with pytest.raises(exits.Failure) as caught:
        config.load(path, ["batch={micro: 1, micro: 2}"])
    for expected in (
        r": key 'seed' is given twice",
        "stepz: unknown key",
        "--set batch={micro: 1, micro: 2}: line 1",
    ):
        assert expected in str(caught.value)


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
