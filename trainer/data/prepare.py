"""Documents to token shards, by workers that share nothing.

A source is cut into units of work that follow from its list of files (sources.py). Each unit gives shards of its own
and a note that it is complete (units.py), and a unit with a note is not done again. So a preparation that was killed
goes on where it stopped, may be spread over processes and machines in any way, and gives the same bytes. The index
is written once all notes are there, by whoever finds that first; without it a folder is not prepared.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from trainer import exits
from trainer.data import plans, pool, readers, shards, sources, tokenizers, units
from trainer.data.documents import TEXT
from trainer.data.places import Place, place
from trainer.data.plans import Plan
from trainer.data.progress import Meter
from trainer.data.shards import HELD_OUT, TRAIN, Index
from trainer.data.sources import Unit
from trainer.data.tokenizers import Tokenizer
from trainer.data.units import Note

NOTES_AT_ONCE = 16
INDEX_OF_POD = "JOB_COMPLETION_INDEX"
"""What Kubernetes tells each pod of an Indexed Job."""


def plan_of(source: str | Path, tokenizer: Tokenizer, held_out: float, **options: Any) -> Plan:
    """`options` are Plan's. Raises exits.Failure if there is nothing to prepare."""
    return Plan(
        sources.open_source(source),
        tokenizer.name,
        tokenizers.digest(tokenizer.name),
        tokenizer.vocabulary,
        held_out,
        **options,
    )


def prepare(
    source: str | Path,
    tokenizer: str,
    held_out: float,
    folder: str | Path,
    *,
    workers: int = 1,
    **options: Any,
) -> Index:
    """Fill `folder` with shards and their index; returns the index. One worker works in this very process."""
    loaded = tokenizers.load(tokenizer)
    plan, output = plan_of(source, loaded, held_out, **options), place(folder)
    plan.claim(output)
    work(plan, plan.units, loaded, output, workers)
    return merge(plan, output)


def part(plan: Plan, number: int, of: int) -> tuple[Unit, ...]:
    """The units of one of `of` parts, numbered from 0."""
    return plan.units[number::of]


def work(plan: Plan, mine: Sequence[Unit], tokenizer: Tokenizer, output: Place, workers: int) -> Meter:
    """Do those of the units that are not done yet; returns what was done now."""
    todo = [unit for unit, note in zip(mine, _notes(plan, mine, output), strict=True) if note is None]
    meter = Meter(sum(unit.bytes for unit in todo))
    if workers == 1:
        for unit in todo:
            units.work(plan, unit, tokenizer, output, meter.add)
    elif todo:
        pool.work(plan, todo, tokenizer, output, workers, meter)
    return meter


def merge(plan: Plan, output: Place) -> Index:
    """Write the index. Raises exits.Failure while units are missing."""
    found = _notes(plan, plan.units, output)
    missing = [unit.number for unit, note in zip(plan.units, found, strict=True) if note is None]
    if missing:
        first = ", ".join(map(str, missing[:10]))
        raise exits.Failure(
            f"{output.url}: {len(missing)} of {len(found)} units are not done ({first}{' …' * (len(missing) > 10)}); "
            "run their parts again, then --merge"
        )
    notes = [note for note in found if note is not None]
    splits = {split: _split(notes, split) for split in (TRAIN, HELD_OUT)}
    if not splits[TRAIN].documents:
        raise exits.Failure(
            f"data.source {plan.source.name}: no documents are left for training", exits.CONFIG
        )
    index = Index(
        plan.tokenizer, plan.vocabulary, shards.dtype_for(plan.vocabulary), splits, plan.tokenizer_digest
    )
    index.write(output)
    output.sweep()
    return index


def _split(notes: Iterable[Note], name: str) -> shards.Split:
    counts = sum((note.counts[name] for note in notes), start=np.zeros(1, dtype=np.int64))
    return shards.Split(
        documents=sum(note.documents[name] for note in notes),
        tokens=int(counts.sum()),
        unigram_entropy=shards.entropy(counts.tolist()),
        shards=tuple(shard for note in notes for shard in note.shards[name]),
    )


def _notes(plan: Plan, of: Sequence[Unit], output: Place) -> list[Note | None]:
    with ThreadPoolExecutor(NOTES_AT_ONCE) as threads:
        return list(threads.map(lambda unit: units.note(plan, unit, output), of))


EXAMPLES = """
examples:
  one machine:        --source /fsx/texts --tokenizer /fsx/models/llama-2-7b --output /fsx/data/corpus --workers 32
  part 3 of 16:       … --part 3/16          (0/16 is the first; the part that finds all others done writes the index)
  an Indexed Job:     … --parts 16           (which part it is stands in JOB_COMPLETION_INDEX)
  the index alone:    … --merge

exit status: 0 done, 2 the source or an option is wrong, 138 not complete or a worker was lost: start again to go on
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n\n")[0], epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter, prog="python -m trainer.data.prepare",
    )  # fmt: skip
    add = parser.add_argument
    add(
        "--source",
        required=True,
        help=f"{sources.PYTHON}, or a folder of {', '.join(readers.SUFFIXES)} files",
    )
    add("--output", required=True, help="folder for the shards")
    add("--tokenizer", default=tokenizers.BYT5, help="byt5, or a Hugging Face tokenizer folder")
    add("--held-out", type=float, default=0.05, help="share of documents kept from training (default 0.05)")
    add("--text", default=TEXT, metavar="KEY", help="key or column of plain texts (default text)")
    add("--skip-bad", action="store_true", help="leave bad records out and count them")
    add("--deduplicate", action="store_true", help="leave out copies of a document within a unit of work")
    add("--workers", type=int, default=1, help="processes")
    add("--part", metavar="I/N", help="do only the Ith of N parts")
    add("--parts", type=int, metavar="N", help=f"the same, with I from {INDEX_OF_POD}")
    add("--merge", action="store_true", help="only write the index, once all parts are done")
    add("--unit-bytes", type=int, default=plans.UNIT_BYTES, help="of the source, in one unit of work")
    add("--shard-tokens", type=int, default=plans.SHARD_TOKENS, help="tokens in one shard")
    add("--json", action="store_true", help="summary as one JSON object")
    arguments = parser.parse_args()
    try:
        print(_summary(_run(arguments), arguments.json))
    except exits.Failure as failure:
        print(failure, file=sys.stderr)
        return failure.status
    except OSError as error:  # of the storage: a full disk, a file system that is gone
        print(error, file=sys.stderr)
        return exits.RETRY
    return exits.FINISHED


def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Facts about what was done."""
    began = time.monotonic()
    for option in ("workers", "unit_bytes", "shard_tokens"):
        if getattr(arguments, option) < 1:
            raise exits.Failure(f"--{option.replace('_', '-')} must be at least 1", exits.CONFIG)
    if not 0 <= arguments.held_out < 1:
        raise exits.Failure("--held-out is a share of at least 0 and below 1", exits.CONFIG)
    number, of = which(arguments.part, arguments.parts)
    tokenizer = tokenizers.load(arguments.tokenizer)
    options = ("text", "skip_bad", "deduplicate", "unit_bytes", "shard_tokens")
    plan = plan_of(
        arguments.source,
        tokenizer,
        arguments.held_out,
        **{name: getattr(arguments, name) for name in options},
    )
    output = place(arguments.output)
    plan.claim(output)
    meter, index = Meter(0), None
    if not arguments.merge:
        meter = work(plan, part(plan, number, of), tokenizer, output, arguments.workers)
    if arguments.merge or len(output.files(units.FOLDER)) >= len(plan.units):
        index = merge(plan, output)
    seconds = time.monotonic() - began
    mine = [note for note in _notes(plan, part(plan, number, of), output) if note]
    return {
        "complete": index is not None,
        "part": f"{number}/{of}",
        "units": len(mine),
        "units_of_all": len(plan.units),
        "skipped": sum(note.skipped for note in mine),
        "duplicates": sum(note.duplicates for note in mine),
        "done_now": {"documents": meter.documents, "tokens": meter.tokens, "seconds": round(seconds, 3),
                     "tokens_per_second": round(meter.tokens / seconds)},
        "splits": {
            name: {"documents": split.documents, "tokens": split.tokens, "shards": len(split.shards),
                   "unigram_entropy": split.unigram_entropy}
            for name, split in (index.splits.items() if index else ())
        },
    }  # fmt: skip


def which(part_: str | None, parts: int | None) -> tuple[int, int]:
    """Number of the part from 0 on, and of how many."""
    text = part_
    if parts is not None:
        if part_ is not None:
            raise exits.Failure("give --part or --parts, not both", exits.CONFIG)
        if INDEX_OF_POD not in os.environ:
            raise exits.Failure(
                f"--parts takes the part's number from {INDEX_OF_POD}, which is not set", exits.CONFIG
            )
        text = f"{os.environ[INDEX_OF_POD]}/{parts}"
    if text is None:
        return 0, 1
    number, _, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
        raise exits.Failure(f"part {text}: expected I/N with I from 0 to N - 1", exits.CONFIG)
    return int(number), int(of)


def _summary(facts: dict[str, Any], as_json: bool) -> str:
    if as_json:
        return json.dumps(facts)
    now = facts["done_now"]
    lines = [
        f"{now['documents']:,} documents, {now['tokens']:,} tokens in {now['seconds']:.1f} s "
        f"({now['tokens_per_second']:,} tokens/s); bad records left out: {facts['skipped']:,}, "
        f"copies: {facts['duplicates']:,}"
    ]
    for name, split in facts["splits"].items():
        lines.append(
            f"{name}: {split['documents']:,} documents, {split['tokens']:,} tokens in {split['shards']} shard(s), "
            f"unigram entropy {split['unigram_entropy']:.4f} nats"
        )
    if not facts["complete"]:
        lines.append(f"part {facts['part']} is done; the others are not yet")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
