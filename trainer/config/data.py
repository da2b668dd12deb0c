"""What it is trained on, how it is dealt out, and what is held out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from trainer.config.section import Count, Fraction, Positive, Section, check


class Shuffle(Section):
    """How far apart sequences are mixed. Blocks are taken in random order, and the sequences of some are mixed."""

    block: Positive = 1 << 22
    """Tokens that lie together in the data, and are read together."""
    blocks: Positive = 64
    """Blocks whose sequences are mixed with one another; data of up to twice as many is mixed as a whole."""


class DataSource(Section):
    """One of several sources."""

    prepared: Annotated[str, Field(min_length=1)]
    """Folder or `s3://bucket/prefix` with `index.json` and token shards."""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Its share of the sequences, against the weights of the others."""


class Data(Section):
    """Where tokens come from: what `trainer.data.prepare` filled, or a text that is prepared at the first start."""

    prepared: Annotated[str, Field(min_length=1)] | None = None
    """Folder or `s3://bucket/prefix` with `index.json` and token shards."""
    sources: tuple[DataSource, ...] = ()
    """Several of those, mixed by weight. All must be of one tokenizer."""
    source: Annotated[str, Field(min_length=1)] | None = None
    """Text to prepare under the output folder: `python-documentation`, the reference that Python's standard library
    carries (`pydoc_data.topics`, PSF licence), or a folder or `s3://bucket/prefix` of texts
    (trainer/data/readers.py)."""
    tokenizer: str = "byt5"
    """`byt5` (UTF-8 bytes; no files needed) or a Hugging Face tokenizer folder."""
    held_out: Fraction = 0.05
    """Share of the documents that is kept away from training."""
    shuffle: Shuffle = Shuffle()
    cache: Path | None = None
    """Folder on a local disk for what is read from S3: a few blocks of each source, or all if `download`; by default
    one for temporary files."""
    download: bool = False
    """Copy all data from S3 into the cache before the first step."""
    verify: bool = False
    """Compare all shards with their checksums at every start; their sizes always are."""

    @check
    def _one_origin(self) -> Iterator[str]:
        given = [name for name in ("prepared", "sources", "source") if getattr(self, name, "wrong")]
        if len(given) != 1:
            yield "give exactly one of prepared, sources and source"

    @check
    def _download_needs_cache(self) -> Iterator[str]:
        if self.download and self.cache is None:
            yield "download needs cache: FOLDER, with room for all of the data"


class Batch(Section):
    """The batch of one optimiser step, whatever the number of processes; they split it among themselves."""

    sequences: Positive
    """Sequences in one step, over all processes."""
    micro: Positive
    """Sequences that one process puts through the model at a time; more than that are accumulated."""


class Evaluate(Section):
    """Loss on held-out text."""

    every: Count = 0
    """Steps between two evaluations; 0 evaluates at the end only."""
    sequences: Count = 64
    """Sequences to read; 0 switches evaluation off."""
