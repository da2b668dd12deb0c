"""Saving and loading the tensors, by all processes together.

PyTorch's distributed checkpoint (DCP) writes each process's shards and can read them into any other layout: another
number of processes, another strategy. What it lacks is added here: a commit, checksums, and the way past damage.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from trainer import exits
from trainer.checkpoint.store import Commit, Damaged, File, Store, checksum, read_commit, verify
from trainer.config import Job, changed
from trainer.ranks import Ranks
from trainer.versions import installed
from trainer.votes import Lost


@dataclass(frozen=True)
class Writing:
    """A checkpoint on its way to the disk."""

    step: int
    partial: Path
    began: float
    files: Future[dict[str, File]]
    """This process's files, once they are written and read back for their checksums."""


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run, on this process. Every method is for all processes at once."""

    store: Store
    job: Job
    ranks: Ranks
    model: nn.Module
    optimiser: torch.optim.Optimizer
    say: Callable[[str], None]
    """Tells a person something; only the leader's words are shown."""
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "checksums"))

    def write(self, step: int, *, background: bool) -> Writing:
        """Begin to write the state as it is after `step`.

        In the background, the state is copied before this returns, and written by a thread while training goes on.
        Raises exits.Failure on all processes if it failed on any.
        """
        began = time.monotonic()
        partial = self.store.partial(step, str(self._agree(lambda: f"{time.time_ns():x}")))
        with self._phase(step, partial):
            model, optimiser = get_state_dict(self.model, self.optimiser)
            partial.mkdir(parents=True, exist_ok=True)
            arguments: dict[str, Any] = {
                "state_dict": {"model": model, "optimiser": optimiser},
                "storage_writer": dcp.FileSystemWriter(partial, single_file_per_rank=True),
                "process_group": self.ranks.saving,
            }
            if background:
                upload: Any = dcp.async_save(**arguments)
                files = self._thread.submit(lambda: (upload.result(), self._own(partial))[1])
            else:
                dcp.save(**arguments)
                files = Future()
                files.set_result(self._own(partial))
        return Writing(step, partial, began, files)

    def commit(self, writing: Writing) -> float:
        """Wait for the end of the writing and make it a checkpoint; returns the seconds it took altogether.

        Raises exits.Failure on all processes if it failed on any; then nothing is left of it.
        """
        with self._phase(writing.step, writing.partial):
            own = writing.files.result(timeout=self.job.limits.save_seconds)
        with self._phase(writing.step, writing.partial):
            everyone: list[Any] = [None] * self.ranks.world
            dist.gather_object(own, everyone if self.ranks.leader else None, 0, group=self.ranks.saving)
            if self.ranks.leader:
                files = {name: file for part in everyone for name, file in part.items()}
                files[".metadata"] = checksum(writing.partial / ".metadata")
                job = self.job.model_dump(mode="json")
                self.store.commit(
                    writing.partial, Commit(writing.step, job, self.ranks.world, installed(), files)
                )
                self.store.prune(self.job.checkpoint.keep, self.job.checkpoint.keep_every)
        return time.monotonic() - writing.began

    def load_newest(self) -> int:
        """Fill model and optimiser from the newest checkpoint that is whole; returns its step, 0 if there is none."""
        if self.ranks.leader:
            self.store.folder.mkdir(parents=True, exist_ok=True)
            self.store.sweep()
        for step in self._agree(self.store.steps):
            try:
                self._load(step)
            except Damaged as damage:
                self.say(f"checkpoint of step {step} is damaged and left out: {damage}")
                if self.ranks.leader:
                    self.store.condemn(step)
                continue
            return int(step)
        return 0

    def _load(self, step: int) -> None:
        """Raises Damaged, on all processes alike."""
        folder = self.store.path(step)
        commit: Commit = self._all_or_damaged(lambda: read_commit(folder))
        if differences := changed(commit.job, self.job):
            lines = "\n".join(f"  {line}" for line in differences)
            raise exits.Failure(
                f"{self.job.output} holds a run of another job; use another output folder, or undo:\n{lines}",
                exits.CONFIG,
            )
        # Each process reads its part of the files, so checking takes as long as one process's share.
        mine = islice(sorted(commit.files.items()), self.ranks.rank, None, self.ranks.world)
        self._all_or_damaged(lambda: verify(folder, mine))
        model, optimiser = get_state_dict(self.model, self.optimiser)
        state = {"model": model, "optimiser": optimiser}
        try:
            dcp.load(state, storage_reader=dcp.FileSystemReader(folder), process_group=self.ranks.saving)
        except dcp.api.CheckpointException as error:
            raise Damaged(f"cannot be read: {_reasons(error)}") from error
        set_state_dict(
            self.model, self.optimiser, model_state_dict=state["model"], optim_state_dict=state["optimiser"]
        )

    def _own(self, partial: Path) -> dict[str, File]:
        return {path.name: checksum(path) for path in partial.glob(f"__{self.ranks.rank}_*")}

    @contextmanager
    def _phase(self, step: int, partial: Path) -> Iterator[None]:
        """A vote, and no remains if it fails."""
        try:
            with self.ranks.control.phase(f"saving step {step}", self.job.limits.save_seconds):
                try:
                    yield
                except (
                    dcp.api.CheckpointException
                ) as error:  # no Exception: would pass by everything that handles one
                    raise exits.Failure(f"step {step} cannot be saved: {_reasons(error)}") from error
        except Lost:
            raise
        except exits.Failure:
            if self.ranks.leader:
                shutil.rmtree(partial, ignore_errors=True)
            raise

    def _all_or_damaged(self, body: Callable[[], Any]) -> Any:
        """Run on all; if it raises Damaged on any, raise that on all. Returns this process's result."""
        result, own = None, None
        try:
            result = body()
        except Damaged as damage:
            own = str(damage)
        everyone: list[str | None] = [None] * self.ranks.world
        dist.all_gather_object(everyone, own, group=self.ranks.saving)
        for damage_there in everyone:
            if damage_there is not None:
                raise Damaged(damage_there)
        return result

    def _agree(self, value: Callable[[], Any]) -> Any:
        """The leader's value, on all processes."""
        box = [value() if self.ranks.leader else None]
        dist.broadcast_object_list(box, src=0, group=self.ranks.saving)
        return box[0]


def _reasons(error: dcp.api.CheckpointException) -> str:
    """What failed, rank by rank, without the tracebacks."""
    return "; ".join(
        f"rank {rank}: {type(cause).__name__}: {cause}" for rank, (cause, _) in sorted(error.failures.items())
    )


def folder_of(job: Job) -> Path:
    return job.output / "checkpoints"
