"""The data that a job names, opened for one process."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer import exits
from trainer.config import Job
from trainer.data import batches, copies, places, prepare, shards
from trainer.data.batches import Batches
from trainer.data.places import Bucket
from trainer.data.remote import RemoteStream
from trainer.data.shards import Index
from trainer.mesh import Layout
from trainer.ranks import Ranks


@dataclass(frozen=True)
class Opened:
    """What a job reads."""

    indices: list[Index]
    """Of each source."""
    training: Batches
    held_out: Batches | None
    unigram_entropy: float
    """Nats per token of the best model that ignores all context, but knows the source that it reads."""


def folders(job: Job, here: Ranks) -> list[str]:
    """Where the token shards of each source are. At the very first start the leader fills the folder if the job names
    a text, and the first process of each node makes the copies that the job asks for."""
    if job.data.source is None:
        named = [job.data.prepared] if job.data.prepared else [one.prepared for one in job.data.sources]
        return [_copied(job, here, one) for one in named]
    folder = job.output / "data"
    if here.leader and not (folder / shards.INDEX).exists():
        prepare.prepare(job.data.source, job.data.tokenizer, job.data.held_out, folder)
    return [str(folder)]


def opened(job: Job, here: Ranks, layout: Layout, where: Sequence[str]) -> Opened:
    """Raises exits.Failure where the sources don't fit together or into the job."""
    indices = [shards.read_index(folder) for folder in where]
    for folder, index in zip(where, indices, strict=True):
        if index.tokenizer_sha256 != indices[0].tokenizer_sha256:
            raise exits.Failure(
                f"{folder} and {where[0]} were prepared with different tokenizers", exits.CONFIG
            )
        if job.data.verify:
            shards.verify(folder, index, here.rank, here.world)
    weights = [source.weight for source in job.data.sources] or [1.0]
    training = _batches(job, here, layout, where, indices, weights, shards.TRAIN)
    held_out = None
    if job.evaluate.sequences:
        held_out = _batches(job, here, layout, where, indices, weights, shards.HELD_OUT)
        for folder, windows in zip(where, held_out.windows_of, strict=True):
            if not windows:
                raise exits.Failure(
                    f"{folder} has no held-out text: set evaluate.sequences to 0, or prepare it with a larger share",
                    exits.CONFIG,
                )
    entropies = [index.splits[shards.TRAIN].unigram_entropy for index in indices]
    entropy = sum(weight * one for weight, one in zip(weights, entropies, strict=True)) / sum(weights)
    return Opened(indices, training, held_out, entropy)


def check(job: Job, where: Sequence[str], data: Opened, vocabulary: int) -> None:
    """Raises exits.Failure where data and model don't fit together."""
    for folder, index, windows in zip(where, data.indices, data.training.windows_of, strict=True):
        batches.check(index, windows, name=folder, vocabulary=vocabulary, sequence=job.model.sequence)


def _copied(job: Job, here: Ranks, url: str) -> str:
    where = places.place(url)
    if not job.data.download or not isinstance(where, Bucket):
        return url
    assert job.data.cache is not None
    index = shards.read_index(url)
    if here.local_rank == 0:
        copies.make(where, index, job.data.cache)
    return str(copies.folder(where, index, job.data.cache))


def _batches(
    job: Job,
    here: Ranks,
    layout: Layout,
    where: Sequence[str],
    indices: Sequence[Index],
    weights: Sequence[float],
    split: str,
) -> Batches:
    return Batches(
        [_stream(job, here, folder, index, split) for folder, index in zip(where, indices, strict=True)],
        job.model.sequence,
        rank=layout.data_rank,
        world=layout.data_world,
        micro=job.batch.micro,
        weights=weights,
        shuffle=job.data.shuffle,
    )


def _stream(job: Job, here: Ranks, folder: str, index: Index, split: str) -> shards.Readable:
    where = places.place(folder)
    if not isinstance(where, Bucket):
        return shards.Stream(Path(folder), index, split)
    return RemoteStream(
        where,
        index,
        split,
        block=batches.block_windows(job.data.shuffle, job.model.sequence) * job.model.sequence,
        cache=job.data.cache or Path(tempfile.gettempdir()) / "trainer-data",
        turn=here.local_rank / here.local_world,
    )
