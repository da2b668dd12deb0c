"""Checkpoints on S3 by real processes: few large requests, bad days, kills, other readers."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.trainer import jobs
from tests.trainer.conftest import Group, Outcome
from tests.trainer.s3 import REGION, S3, Request
from tests.trainer.test_life import Start
from trainer import exits
from trainer.checkpoint.s3 import S3Store
from trainer.checkpoint.storage import Saved
from trainer.checkpoint.where import storage
from trainer.objects import MIB

pytestmark = pytest.mark.processes

STEPS = 10
PATIENCE = 240.0
"""Seconds, with a busy machine."""
PART_MIB = 5
WIDE: dict[str, Any] = {
    "steps": STEPS,
    "model": {"hidden": 256, "feed_forward": 512, "sequence": 32},
    "batch": {"sequences": 4, "micro": 2},
    "evaluate": {"sequences": 0},
    "optimiser": {"learning_rate": 1e-3},
}
"""Large enough for each of two processes to write more than one part."""


def job(bucket: str, case: str, **checkpoint: Any) -> dict[str, Any]:
    s3 = {"part_mib": PART_MIB, "patience_seconds": 20}
    s3 |= checkpoint.pop("s3", {})
    there = {"storage": f"s3://{bucket}/{case}", "every": 4, "keep": 9, "s3": s3}
    return {**WIDE, "checkpoint": {**there, **checkpoint}}


@dataclass
class Weather:
    """What befalls whose requests. Cases are told apart by the first name of their keys."""

    writes: Counter[str] = field(default_factory=Counter)

    def __call__(self, request: Request) -> str | None:
        case = request.key.partition("/")[0]
        if case == "bumpy" and request.method in ("PUT", "POST"):
            self.writes[case] += 1
            return "503" if self.writes[case] % 3 == 1 else None
        refused = "step-00000004." in request.key and "__1_0" in request.key
        if case.startswith("one-node-refused") and refused and request.query.get("partNumber") == "2":
            return "503"
        return None


@dataclass
class Morning:
    """What a group of two did in one go."""

    outcomes: dict[str, Outcome]
    bucket: str
    s3: S3

    def store(self, case: str) -> S3Store:
        """As one process alone sees the case's checkpoints."""
        changes = job(self.bucket, case)
        opened = storage(jobs.job(self.outcomes[case].output, **changes))
        assert isinstance(opened, S3Store)
        return opened

    def steps(self, case: str) -> list[int]:
        return [saved.step for saved in self.store(case).saved()]

    def requests(self, case: str) -> list[Request]:
        return [request for request in self.s3.requests if request.key.startswith(f"{case}/")]


@pytest.fixture(scope="module")
def address(s3_server: S3) -> Any:
    """S3's whereabouts in this process's environment too, for the readers."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3_server.environment.items():
            patch.setenv(name, value)
        yield s3_server
    s3_server.spoil = lambda _: None


@pytest.fixture(scope="module")
def morning(group: Group, address: S3) -> Morning:
    bucket = address.bucket()
    address.spoil = Weather()
    impatient = {"patience_seconds": 0.3}
    cases: dict[str, dict[str, Any]] = {
        "on-disk": {**WIDE, "checkpoint": {"every": 4, "keep": 9}},
        "plain": job(bucket, "plain", keep=2),
        "bumpy": job(bucket, "bumpy", asynchronous=True),
        "one-node-refused": {**job(bucket, "one-node-refused", s3=impatient), "faults": {"own_node": True}},
        "one-node-refused-behind": {
            **job(bucket, "one-node-refused-behind", s3=impatient, asynchronous=True),
            "faults": {"own_node": True},
        },
        "no-room": {
            **job(bucket, "no-room", asynchronous=True), "faults": {"file_bytes": 1_000_000},
        },
    }  # fmt: skip
    return Morning(group(2, cases, address.environment), bucket, address)


def test_training_does_not_notice_where_its_checkpoints_go(morning: Morning) -> None:
    for case in ("plain", "bumpy", "one-node-refused", "one-node-refused-behind"):
        outcome = morning.outcomes[case]
        assert outcome.status == exits.FINISHED, outcome.message
        assert outcome.losses == morning.outcomes["on-disk"].losses


def test_few_large_requests_a_checkpoint(morning: Morning) -> None:
    (saved,) = [saved for saved in morning.store("plain").saved() if saved.step == 8]
    commit = morning.store("plain").read_commit(saved)
    assert set(commit.files) == {"00/__0_0.distcp", "10/__1_0.distcp", ".metadata"}
    part = PART_MIB * MIB
    expected: Counter[str] = Counter(PutObject=1)  # the commit
    for file in commit.files.values():
        if file.size <= part:
            expected["PutObject"] += 1
        else:
            expected += Counter(
                CreateMultipartUpload=1, UploadPart=-(-file.size // part), CompleteMultipartUpload=1
            )
    assert expected["UploadPart"] >= 4, "the model is too small to show anything"
    requests = [
        request for request in morning.requests("plain")
        if saved.name in request.key and request.method in ("PUT", "POST")
    ]  # fmt: skip
    assert Counter(request.operation for request in requests) == expected
    assert requests[-1].key.endswith(f"{saved.name}/commit.json"), "the commit comes last"
    parts = [request for request in requests if request.operation == "UploadPart"]
    small = [request for request in parts if request.size < part]
    assert len(small) <= 2, "only the last part of a file may be small"
    told = [
        line for line in (morning.outcomes["plain"].output / "metrics.jsonl").read_text().splitlines()
        if '"event": "checkpoint"' in line and '"step": 8,' in line
    ]  # fmt: skip
    assert f'"requests": {expected.total()}' in told[0]


def test_retention_is_that_of_folders(morning: Morning) -> None:
    assert morning.steps("plain") == [STEPS, 8]
    assert morning.steps("bumpy") == [STEPS, 8, 4]
    keys = morning.s3.keys(morning.bucket)
    assert len([key for key in keys if key.startswith("plain/")]) == 2 * 4


def test_busy_answers_are_waited_out_and_counted(morning: Morning) -> None:
    text = (morning.outcomes["bumpy"].output / "metrics.jsonl").read_text()
    assert "checkpoint_failed" not in text
    assert "request(s) tried again" in morning.outcomes["bumpy"].text


@pytest.mark.parametrize("case", ["one-node-refused", "one-node-refused-behind"])
def test_what_fails_on_one_node_fails_for_all_and_is_tried_again_after_the_next_step(
    case: str, morning: Morning
) -> None:
    text = (morning.outcomes[case].output / "metrics.jsonl").read_text()
    assert text.count("checkpoint_failed") == 1
    assert "UploadPart: SlowDown" in text
    steps = morning.steps(case)
    assert 4 not in steps
    assert STEPS in steps
    assert 5 in steps or case.endswith("behind"), "not tried again after the next step"
    operations = Counter(request.operation for request in morning.requests(case))
    assert operations["AbortMultipartUpload"] == 1
    assert morning.store(case).objects.uploads("") == []
    keys = [key for key in morning.s3.keys(morning.bucket) if key.startswith(f"{case}/")]
    assert len(keys) == 4 * len(steps), "what the other node had uploaded is gone"


def test_a_full_staging_disk_is_survived_and_leaves_nothing(morning: Morning) -> None:
    outcome = morning.outcomes["no-room"]
    assert outcome.status == exits.RETRY, "without its last checkpoint a job is not finished"
    assert "cannot be saved: rank 0: " in outcome.message
    assert "GB free in " in outcome.message
    assert list(outcome.history.steps) == list(range(1, STEPS + 1))
    assert not [key for key in morning.s3.keys(morning.bucket) if key.startswith("no-room/")]


def everything(reader: Any) -> dict[str, Any]:
    """All that DCP finds through a reader, in one process."""
    from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
    from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

    state: dict[str, Any] = {}
    _load_state_dict(state, storage_reader=reader, planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    return state


def flat(state: Any, path: str = "") -> dict[str, Any]:
    if isinstance(state, dict):
        return {
            key: value
            for name, below in state.items()
            for key, value in flat(below, f"{path}/{name}").items()
        }
    return {path: state}


def test_the_unmodified_reader_of_s3torchconnector_and_ours_find_what_a_folder_holds(
    morning: Morning,
) -> None:
    import torch
    import torch.distributed.checkpoint as dcp
    from s3torchconnector import S3ClientConfig
    from s3torchconnector.dcp import S3StorageReader

    folder = morning.outcomes["on-disk"].output / "checkpoints" / f"step-{STEPS:08d}"
    expected = flat(everything(dcp.FileSystemReader(folder)))
    store = morning.store("plain")
    saved = store.saved()[0]
    assert saved.step == STEPS
    theirs = S3StorageReader(
        REGION, str(store.address.below(saved.name)), s3client_config=S3ClientConfig(force_path_style=True)
    )
    for reader in (theirs, store.reader(saved, store.read_commit(saved))):
        found = flat(everything(reader))
        assert set(found) == set(expected)
        for name, value in expected.items():
            if isinstance(value, torch.Tensor):
                assert found[name].dtype == value.dtype
                assert bool((found[name] == value).all()), name
            else:
                assert found[name] == value, name


def test_a_checkpoint_on_s3_is_exported(
    morning: Morning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from safetensors.torch import load_file

    from trainer import weights

    file = jobs.write(tmp_path / "job.yaml", tmp_path, **job(morning.bucket, "plain"))
    arguments = ["--config", str(file), "--output", str(tmp_path / "export"), "--dtype", "float32"]
    monkeypatch.setattr(sys, "argv", ["weights", *arguments])
    assert weights.main() == exits.FINISHED
    exported = load_file(tmp_path / "export" / "model.safetensors")
    for name, value in morning.outcomes["on-disk"].weights(STEPS).items():
        assert bool((exported[name] == value).all()), name


@dataclass
class Story:
    """A job on S3 over three starts."""

    starts: list[Start]
    store: S3Store
    after_the_kill: list[str]
    saved_then: list[Saved]
    uploads_then: int
    after_the_second: list[str]
    uploads_after: int


@pytest.fixture(scope="module")
def story(address: S3, tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("s3-life")
    bucket = address.bucket()
    settings = job(bucket, "story", every=2, asynchronous=True, s3={"staging": str(folder / "staging")})
    file = jobs.write(folder / "job.yaml", folder / "output", **settings)
    store = storage(jobs.job(folder / "output", **settings))
    assert isinstance(store, S3Store)

    reached, killed = threading.Event(), threading.Event()

    def hold(request: Request) -> str | None:
        if "step-00000008." in request.key and request.query.get("partNumber") == "2" and not killed.is_set():
            reached.set()
            killed.wait(2 * PATIENCE)
            return "cut"
        return None

    address.spoil = hold
    first = Start(
        file, folder / "output", 2, address.environment
    )  # all are killed in the middle of an upload
    first.wait_for(reached.is_set, PATIENCE)
    keys, saved, uploads = address.keys(bucket), store.saved(), store.objects.uploads("")
    os.killpg(first.process.pid, signal.SIGKILL)
    for worker in first.workers():
        os.kill(worker, signal.SIGKILL)
    killed.set()
    first.finish()

    flip(address, bucket, store.address.key(saved[0].name, "10/__1_0.distcp"))
    second = Start(file, folder / "output", 1, address.environment)  # on one process, and told to end
    second.wait_for(lambda: trains(second, 2), PATIENCE)
    second.process.send_signal(signal.SIGTERM)
    second.finish(PATIENCE)
    keys_after, uploads_after = address.keys(bucket), store.objects.uploads("")

    third = Start(file, folder / "output", 2, address.environment)  # on two again, to the end
    third.finish(PATIENCE)
    return Story(
        [first, second, third], store, keys, saved, len(uploads), keys_after, len(uploads_after)
    )  # fmt: skip


def trains(start: Start, number: int) -> bool:
    """Whether the job's start of this number has done a step."""
    lines = (start.output / "metrics.jsonl").read_text()
    return (
        lines.count('"event": "start"') == number
        and '"event": "step"' in lines.rpartition('"event": "start"')[2]
    )


def flip(s3: S3, bucket: str, key: str) -> None:
    """Turn over one bit in the middle of an object."""
    client = s3.client()
    data = bytearray(client.get_object(Bucket=bucket, Key=key)["Body"].read())
    data[len(data) // 2] ^= 1
    client.put_object(Bucket=bucket, Key=key, Body=bytes(data))


def test_right_after_a_kill_in_the_middle_of_a_save_there_is_no_new_checkpoint(story: Story) -> None:
    assert [saved.step for saved in story.saved_then] == [6, 4, 2]
    assert story.uploads_then >= 1, "it was not killed in the middle of an upload"
    assert not [key for key in story.after_the_kill if "step-00000008." in key and "commit" in key]


def test_remains_of_the_killed_save_are_swept(story: Story) -> None:
    assert story.uploads_after == 0
    complete = {key.split("/")[2] for key in story.after_the_second if key.endswith("commit.json")}
    assert {key.split("/")[2] for key in story.after_the_second} == complete
    assert not list(story.starts[0].file.parent.glob("staging/*/*/*")), "nothing is left on the node"


def test_a_damaged_one_is_left_out_for_the_one_before_on_another_number_of_processes(story: Story) -> None:
    second = story.starts[1]
    assert (
        "checkpoint of step 6 is damaged and left out: cannot be read: rank 0: Damaged: 10/__1_0"
        in second.text
    )
    assert "fails its checksum between bytes" in second.text
    assert "1 process(es) on cpu" in second.text
    assert "resuming after step 4" in second.text
    assert second.status == exits.TERMINATED


def test_the_end_is_that_of_an_unbroken_run_on_a_disk(story: Story, morning: Morning) -> None:
    third = story.starts[2]
    assert third.status == exits.FINISHED, third.text
    assert "2 process(es) on cpu" in third.text
    outcome = Outcome(0, "", third.output)
    ours, theirs = outcome.history.losses, morning.outcomes["on-disk"].history.losses
    assert list(ours) == list(theirs) == list(range(1, STEPS + 1))
    assert list(ours.values()) == pytest.approx(list(theirs.values()), rel=1e-5)
    assert story.store.saved()[0].step == STEPS
