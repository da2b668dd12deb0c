"""Runs that many tests look at: each group of processes is started once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.trainer import jobs, s3
from trainer import history

if TYPE_CHECKING:
    from tests.trainer.campaign import Forge

PROJECT = Path(__file__).parents[2]
PATH = os.pathsep.join(filter(None, [str(PROJECT), os.environ.get("PYTHONPATH")]))
"""With another torch before ours, if somebody wants to test on it."""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": PATH}


def torchrun(
    processes: int, module: str, *arguments: str, launcher: str = "torch.distributed.run"
) -> list[str]:
    return [
        sys.executable, "-m", launcher, "--standalone", "--nproc-per-node", str(processes), "-m", module, *arguments,
    ]  # fmt: skip


@dataclass
class Outcome:
    """A job that a group ran."""

    status: int
    message: str
    output: Path
    text: str = ""
    """What the whole group printed."""

    @property
    def history(self) -> history.History:
        return history.read(self.output / "metrics.jsonl")

    @property
    def losses(self) -> list[float]:
        return list(self.history.losses.values())

    @property
    def norms(self) -> list[float]:
        return [facts["gradient_norm"] for facts in self.history.steps.values()]

    def weights(self, step: int) -> dict[str, Any]:
        """Of a checkpoint, by the converter that PyTorch brings: a reader that knows nothing of our program."""
        import torch
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

        whole = self.output / f"{step}.pt"
        dcp_to_torch_save(self.output / "checkpoints" / f"step-{step:08d}", whole)
        weights: dict[str, Any] = torch.load(whole, weights_only=False)["model"]
        return weights


@pytest.hookimpl(tryfirst=True)  # before marks are chosen by
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What talks to a server is no fast test."""
    for item in items:
        if "s3_server" in getattr(item, "fixturenames", ()):
            item.add_marker("processes")


@pytest.fixture(scope="session")
def s3_server() -> Iterator[s3.S3]:
    """S3 on loopback, shared: take a bucket of your own, and give processes its `environment`."""
    with s3.served() as server:
        yield server


Group = Callable[..., dict[str, Outcome]]


@pytest.fixture(scope="session")
def group(forge: Forge, tmp_path_factory: pytest.TempPathFactory) -> Group:
    """Run named jobs, each the tiny one with changes, in one group of so many processes.

    A change `output` names another job of the group whose folder is used again; `faults` are group.py's.
    """

    def run(
        processes: int, changes: dict[str, dict[str, Any]], environment: dict[str, str] | None = None
    ) -> dict[str, Outcome]:
        folder = tmp_path_factory.mktemp(f"group-{processes}")
        outputs, tasks = {}, []
        for name, change in changes.items():
            outputs[name] = folder / str(change.get("output", name))
            settings = {key: value for key, value in change.items() if key not in ("output", "faults")}
            file = jobs.write(folder / f"{name}.yaml", outputs[name], **settings)
            tasks.append({"job": str(file), "faults": change.get("faults", {})})
        listing = folder / "jobs.json"
        listing.write_text(json.dumps(tasks))
        done = forge.run(
            "tests.trainer.group", processes, str(listing), environment=environment, patience=900
        )
        assert done.statuses == [0] * processes, done.text[-12000:]
        statuses = json.loads((folder / "jobs.rank0").read_text())
        for rank in range(1, processes):
            others = json.loads((folder / f"jobs.rank{rank}").read_text())
            assert {k: v[0] for k, v in others.items()} == {k: v[0] for k, v in statuses.items()}, (
                "ranks disagree"
            )
        return {name: Outcome(*statuses[name], outputs[name], done.text) for name in changes}

    return run


class Groups(Mapping[str, Outcome]):
    """Outcomes of several groups, by case. A group runs when one of its cases is first asked for."""

    def __init__(self, *groups: tuple[Collection[str], Callable[[], dict[str, Outcome]]]) -> None:
        self._groups = list(groups)
        self._found: dict[str, Outcome] = {}

    def __getitem__(self, name: str) -> Outcome:
        for group in self._groups:
            if name in group[0] and name not in self._found:
                self._found |= group[1]()
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter({name for names, _ in self._groups for name in names})

    def __len__(self) -> int:
        return len({*self})


def parted(cases: dict[str, Any], soak: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The cases of the gate, and those of `make soak`, which have a group of their own."""
    return (
        {name: case for name, case in cases.items() if name not in soak},
        {name: case for name, case in cases.items() if name in soak},
    )


@pytest.fixture(scope="session")
def questions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of questions with answers: between none and nearly all of a sequence are targets."""
    from pydoc_data.topics import topics

    folder = tmp_path_factory.mktemp("questions")
    with (folder / "questions.jsonl").open("w") as file:
        for topic in sorted(topics):
            for number, text in enumerate(topics[topic].split("\n\n"), start=1):
                cut = len(text) * (number % 7) // 7
                file.write(json.dumps({"prompt": text[:cut], "answer": text[cut:]}) + "\n")
    return folder


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of several files, made by `transformers` alone."""
    import torch
    from transformers.models.llama.modeling_llama import LlamaForCausalLM

    from trainer import model as models

    folder = tmp_path_factory.mktemp("published")
    torch.manual_seed(1)
    shape = models.shape(jobs.job(folder).model)
    LlamaForCausalLM(shape).bfloat16().save_pretrained(folder, max_shard_size="40KB")
    return folder


@pytest.fixture(scope="session")
def spread_outcomes(group: Group, questions: Path, published: Path) -> Groups:
    """Of the cases in spread.py, in one group, and those of `make soak` in another."""
    from tests.trainer import spread

    folders = {
        "tensor-answers": {"data": {"source": str(questions)}},
        "context-answers": {"data": {"source": str(questions)}},
        "tensor-loaded": {"model": {**dict.fromkeys(jobs.SHAPE), "huggingface": str(published)}},
    }
    cases = {name: jobs.merged(case, folders.get(name, {})) for name, case in spread.CASES.items()}
    gate, soak = parted(cases, spread.SOAK)
    return Groups((gate, lambda: group(4, gate)), (soak, lambda: group(4, soak)))


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forge]:
    from tests.trainer.campaign import Forge

    running = Forge(tmp_path_factory.mktemp("forge"))
    yield running
    running.process.kill()


@pytest.fixture(scope="session")
def spread_references(spread_outcomes: Groups) -> dict[str, Any]:
    """Plain one-process trainings, by the case on whose data they are (spread.reference_of)."""
    from tests.trainer import reference, spread

    folders = {name: spread_outcomes[name].output for name in spread.REFERENCES}
    return {
        name: reference.train(jobs.job(folders[name], **changes), folders[name] / "data")
        for name, changes in spread.REFERENCES.items()
    }
