"""What a preparation is to make: everything that its outcome depends on, the same for everybody who takes part."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trainer import exits
from trainer.data.documents import TEXT
from trainer.data.places import Place
from trainer.data.sources import Source, Unit

FILE = "plan.json"
UNIT_BYTES = 256 << 20
"""Of the source, in one unit of work: a minute or two for one core."""
SHARD_TOKENS = 64 << 20
"""Tokens in a shard, or a document more: 128 MiB with a vocabulary of at most 65,536, else 256 MiB."""


@dataclass(frozen=True)
class Plan:
    source: Source
    tokenizer: str
    tokenizer_digest: str
    vocabulary: int
    held_out: float
    """Share of the documents."""
    text: str = TEXT
    """Key or column of plain texts."""
    skip_bad: bool = False
    deduplicate: bool = False
    """Leave out documents that are identical to an earlier one of their unit."""
    unit_bytes: int = UNIT_BYTES
    shard_tokens: int = SHARD_TOKENS

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        return tuple(self.source.units(self.unit_bytes))

    def facts(self) -> dict[str, Any]:
        """What must not change while a folder is being filled."""
        files = hashlib.sha256(repr(self.source.files).encode()).hexdigest()
        return {
            "source": f"{len(self.source.files)} files, {files}" if self.source.files else self.source.name,
            "tokenizer": self.tokenizer_digest,
            "held_out": self.held_out,
            "text": self.text,
            "skip_bad": self.skip_bad,
            "deduplicate": self.deduplicate,
            "unit_bytes": self.unit_bytes,
            "shard_tokens": self.shard_tokens,
        }

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.facts(), sort_keys=True).encode()).hexdigest()

    def input(self, unit: Unit) -> str:
        """Digest of everything that a unit's shards depend on."""
        facts = {key: value for key, value in self.facts().items() if key != "source"}
        return hashlib.sha256(f"{json.dumps(facts, sort_keys=True)}{unit.digest()}".encode()).hexdigest()

    def claim(self, output: Place) -> None:
        """Note in the output folder what it is filled with: the first of all who do it decides. Raises exits.Failure
        if that was something else."""
        facts = self.facts()
        while (recorded := output.read(FILE)) is None:
            if output.create(FILE, (json.dumps(facts, indent=1) + "\n").encode()):
                return
        earlier = json.loads(recorded)
        changes = [
            f"{key} was {earlier.get(key)!r}, is {value!r}"
            for key, value in facts.items()
            if earlier.get(key) != value
        ]
        if changes:
            raise exits.Failure(
                f"{output.url}: was begun with another source or other options ({'; '.join(changes)}); "
                "take another folder, or empty this one",
                exits.CONFIG,
            )
