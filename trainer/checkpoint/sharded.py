"""Saving and loading the tensors, by all processes together.

PyTorch's distributed checkpoint (DCP) writes each process's shards and can read them into any other layout: another
number of processes, another strategy. What it lacks is added here: a commit, checksums, and the way past damage.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from trainer import exits
from trainer.checkpoint.commits import Commit, Damaged, File
from trainer.checkpoint.storage import Attempt, Saved, Storage
from trainer.config import Job, changed, free
from trainer.ranks import Ranks
from trainer.versions import installed
from trainer.votes import Lost

T = TypeVar("T")


@dataclass(frozen=True)
class Writing:
    """A checkpoint on its way to its storage."""

    attempt: Attempt
    began: float
    files: Future[dict[str, File]]
    """What this process brought there, once it has."""
    staged: Future[Any] | None = None
    """Done once the state may change again; None if it may already."""

    @property
    def step(self) -> int:
        return self.attempt.step


def _stager() -> DefaultStager:
    """Copies a state into host memory for a save in the background, in a thread (and on a GPU in a stream) of its own,
    beside the passes of the next step: nothing of the state changes before its update. The memory is kept for the
    next save: it is not asked for and cleared again each time, and a GPU copies fastest into memory that is pinned
    once."""
    gpu = torch.cuda.is_available()
    return DefaultStager(
        StagingOptions(
            use_pinned_memory=gpu, use_shared_memory=False, use_async_staging=True, use_non_blocking_copy=gpu
        )
    )


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run, on this process. Every method is for all processes at once."""

    storage: Storage
    job: Job
    ranks: Ranks
    model: nn.Module
    optimiser: torch.optim.Optimizer
    say: Callable[[str], None]
    """Tells a person something; only the leader's words are shown."""
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "checkpoints"))
    _pruning: list[Future[None]] = field(default_factory=list)
    _stager: DefaultStager = field(default_factory=_stager)

    def write(self, step: int, *, background: bool) -> Writing:
        """Begin to write the state as it is after `step`.

        In the background, a thread copies the state and writes the copy while training goes on; `Writing.staged` says
        from when on the state may change. Raises exits.Failure on all processes if it failed on any.
        """
        began = time.monotonic()
        self.pruned()
        self.storage.traffic()  # what was before is not this one's
        token = str(self._agree(lambda: f"{time.time_ns():x}"))
        with self.ranks.control.phase(f"saving step {step}", self.job.limits.save_seconds):
            attempt = self.storage.attempt(step, token)
        with self._phase(attempt):
            model, optimiser = get_state_dict(self.model, self.optimiser)
            state = {"model": model, "optimiser": optimiser}
            if background:
                if torch.cuda.is_available():  # the copies' stream doesn't wait for the update by itself
                    torch.cuda.current_stream().synchronize()
                staged: Any = self._stager.stage(state)
                return Writing(attempt, began, self._thread.submit(self._write_copy, attempt, staged), staged)
            files: Future[dict[str, File]] = Future()
            files.set_result(self._write(attempt, state, self.storage.writer(attempt)))
            return Writing(attempt, began, files)

    def _write_copy(self, attempt: Attempt, staged: Future[Any]) -> dict[str, File]:
        """In the background. Nobody begins to write before everybody has a copy: who has none would not come, and the
        others would wait for it until their time is up."""
        error = staged.exception()
        own = None if error is None else f"{type(error).__name__}: {error}"
        if failed := [f"rank {rank}: {reason}" for rank, reason in enumerate(self._from_all(own)) if reason]:
            raise exits.Failure(f"step {attempt.step} cannot be copied: {'; '.join(failed)}")
        return self._write(attempt, staged.result(), self.storage.writer(attempt, copied=True))

    def _write(self, attempt: Attempt, state: dict[str, Any], writer: Any) -> dict[str, File]:
        dcp.save(state, storage_writer=writer, process_group=self.ranks.saving)
        return self.storage.finish(attempt)

    def commit(self, writing: Writing) -> dict[str, float]:
        """Wait for the end of the writing and make it a checkpoint; returns what it took: `seconds` altogether, and,
        to the leader, requests, retries and bytes of all where it went over a network (without what retention costs).

        Raises exits.Failure on all processes if it failed on any; then nothing is left of it.
        """
        with self._phase(writing.attempt):
            own = writing.files.result(timeout=self.job.limits.save_seconds)
        took: Counter[str] = Counter()
        with self._phase(writing.attempt):
            everyone: list[Any] = [None] * self.ranks.world
            mine = (own, self.storage.traffic())
            dist.gather_object(mine, everyone if self.ranks.leader else None, 0, group=self.ranks.saving)
            if self.ranks.leader:
                files = {name: file for part, _ in everyone for name, file in part.items()}
                job = self.job.model_dump(mode="json")
                self.storage.commit(
                    writing.attempt, Commit(writing.step, job, self.ranks.world, installed(), files)
                )
                for traffic in [self.storage.traffic(), *(traffic for _, traffic in everyone)]:
                    took.update(traffic)
                self._pruning.append(self._thread.submit(self._prune))
        return {"seconds": time.monotonic() - writing.began, **took}

    def pruned(self) -> None:
        """Wait until old checkpoints are removed: a thread of the leader's does it, so that nobody waits for a slow
        storage. Nothing may be written before."""
        while self._pruning:
            self._pruning.pop().result()

    def _prune(self) -> None:
        """A new checkpoint is not worth less because an old one could not be removed."""
        try:
            self.storage.prune(self.job.checkpoint.keep, self.job.checkpoint.keep_every)
        except (OSError, exits.Failure) as error:
            self.say(f"old checkpoints stay until the next one: {error}")

    def load_newest(self) -> int:
        """Fill model and optimiser from the newest checkpoint that is whole; returns its step, 0 if there never was
        one.

        Raises exits.Failure on all processes if one can't be read (which is no damage: another start may succeed), and
        with status DAMAGED if all there are, or were, are damaged: beginning anew is not for a program to decide.
        """
        self.pruned()
        self.storage.sweep()
        for saved in self._agree(self.storage.saved):
            try:
                self._load(saved)
            except Damaged as damage:
                self.say(f"checkpoint of step {saved.step} is damaged and left out: {damage}")
                if self.ranks.leader:
                    self.storage.condemn(saved, str(damage))
                continue
            return int(saved.step)
        if damaged := self._agree(self.storage.condemned):
            steps = ", ".join(map(str, damaged))
            raise exits.Failure(
                f"{self.storage}: no checkpoint is whole, those of step {steps} are damaged; to train again from the "
                "initial weights, remove them",
                exits.DAMAGED,
            )
        return 0

    def _load(self, saved: Saved) -> None:
        """Raises Damaged or exits.Failure, on all processes alike."""
        commit: Commit = self._all_or_damaged(lambda: self.storage.read_commit(saved))
        if differences := changed(commit.job, self.job):
            raise exits.Failure(_another_job(str(self.storage), differences), exits.CONFIG)
        self._all_or_damaged(lambda: self.storage.verify(saved, commit))
        model, optimiser = get_state_dict(self.model, self.optimiser)
        state = {"model": model, "optimiser": optimiser}
        reader = self.storage.reader(saved, commit)
        try:
            dcp.load(state, storage_reader=reader, process_group=self.ranks.saving)
        except dcp.api.CheckpointException as error:
            if all(isinstance(cause, Damaged) for cause, _ in error.failures.values()):
                raise Damaged(f"cannot be read: {reasons(error)}") from error
            raise exits.Failure(f"step {saved.step} cannot be loaded: {reasons(error)}") from error
        set_state_dict(
            self.model, self.optimiser, model_state_dict=state["model"], optim_state_dict=state["optimiser"]
        )

    @contextmanager
    def _phase(self, attempt: Attempt) -> Iterator[None]:
        """A vote. If it fails, no remains, and nobody goes on before all have let go of the attempt: the others'
        patience with the next step is much shorter than with a save."""
        seconds = self.job.limits.save_seconds
        try:
            with self.ranks.control.phase(f"saving step {attempt.step}", seconds):
                try:
                    yield
                except (
                    dcp.api.CheckpointException
                ) as error:  # no Exception: would pass by everything that handles one
                    raise exits.Failure(
                        f"step {attempt.step} cannot be saved: {reasons(error)} ({_room(attempt.folder)})"
                    ) from error
        except Lost:
            raise
        except exits.Failure as failure:
            missing = self.ranks.control.roll_call(f"failed {attempt.folder.name}", seconds)
            if missing:
                raise Lost(f"{failure}; and no word from {', '.join(missing)}") from failure
            with suppress(OSError, exits.Failure):  # the next save or start sweeps
                self.storage.discard(attempt)
            raise

    def _all_or_damaged(self, body: Callable[[], Any]) -> Any:
        """Run on all; if it raises on any, raise that on all: Damaged, or, whatever else it is, exits.Failure.
        Returns this process's result."""
        result: Any = None
        own: tuple[bool, str] | None = None
        try:
            result = body()
        except Damaged as damage:
            own = True, str(damage)
        except (OSError, exits.Failure) as error:
            own = False, f"{self.ranks.describe()}: {error}"
        everyone = [one for one in self._from_all(own) if one is not None]
        if unread := [reason for damaged, reason in everyone if not damaged]:
            raise exits.Failure(f"{self.storage}: a checkpoint cannot be read: {unread[0]}")
        if everyone:
            raise Damaged(everyone[0][1])
        return result

    def _from_all(self, own: T) -> list[T]:
        """Everybody's value, by rank, on all processes."""
        everyone: list[Any] = [None] * self.ranks.world
        dist.all_gather_object(everyone, own, group=self.ranks.saving)
        return everyone

    def _agree(self, value: Callable[[], Any]) -> Any:
        """The leader's value, on all processes."""
        box = [value() if self.ranks.leader else None]
        dist.broadcast_object_list(box, src=0, group=self.ranks.saving)
        return box[0]


def reasons(error: dcp.api.CheckpointException) -> str:
    """What failed, rank by rank, without the tracebacks."""
    return "; ".join(
        f"rank {rank}: {type(cause).__name__}: {cause}" for rank, (cause, _) in sorted(error.failures.items())
    )


def _room(folder: Path) -> str:
    """PyTorch's writer says of a full disk only that it wrote less than it wanted to."""
    try:
        return f"{shutil.disk_usage(folder).free / 1e9:.2f} GB free in {folder}"
    except OSError as error:
        return f"{folder}: {error.strerror}"


def _another_job(where: str, differences: list[str]) -> str:
    lines = "\n".join(f"  {line}" for line in differences)
    return (
        f"{where} holds a run of another job; give this one another name, output folder or storage, or undo:\n"
        f"{lines}\n  (a run may change {', '.join(free())} between two starts, and nothing else)"
    )
