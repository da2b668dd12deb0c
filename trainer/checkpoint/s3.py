"""Checkpoints on S3.

    s3://bucket/prefix/JOB/step-00000120.18d3…/   one attempt to save step 120
        00/__0_0.distcp, 10/__1_0.distcp, …       PyTorch's distributed checkpoint, a file per process
        .metadata
        commit.json                               put last: from then on it is a complete checkpoint
        damaged.json                              put later: why it is none any more

S3 has no rename, so every attempt has a name of its own, and one PutObject makes a checkpoint of it; objects of an
attempt without it are remains. The processes of a node write to a folder of that node, and one of them uploads: few
requests, each large, at a rate that the nodes share. The prefix of a file's name spreads the files of a checkpoint
over S3's key space, as s3torchconnector's HexPrefixStrategy does, and stands in DCP's own metadata: every reader of
DCP finds them. Needs no torch, but for DCP's writer and reader.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import socket
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer.checkpoint.commits import COMMIT, Commit, Damaged, File, parse_commit
from trainer.checkpoint.storage import METADATA, Attempt, Place, Saved, Storage, ahead, excess, owned
from trainer.objects import Address, Missing, Objects

DAMAGED = "damaged.json"
JITTER_SECONDS = 2.0
"""Nodes begin their uploads spread over this much time."""
_KEY = re.compile(r"(step-(\d{8,})\.[0-9a-f]+)/(.+)")


def spread(rank: int) -> str:
    """Folder of a process's file: its number in hex, last digit first, so that neighbours lie far apart."""
    return f"{rank:02x}"[::-1]


@dataclass
class Found:
    """What lies below the name of one attempt: sizes in bytes by file."""

    step: int
    files: dict[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return COMMIT in self.files and DAMAGED not in self.files


class S3Store(Storage):
    """The objects below one address, which belongs to this run."""

    def __init__(
        self,
        address: Address,
        staging: Path,
        objects: Objects,
        place: Place | None = None,
        *,
        part_bytes: int,
        upload_seconds: float,
    ) -> None:
        """`staging` is a folder of this run, on this node or shared by all; an attempt is given up after
        `upload_seconds`."""
        self.address, self.objects, self.place = address, objects, place or Place()
        self._host = socket.gethostname()
        self._staging = staging / f"{self._host}.{self.place.on_node.start}"
        self._part_bytes, self._upload_seconds = part_bytes, upload_seconds
        self._told = (0, 0, 0)

    def __str__(self) -> str:
        return str(self.address)

    def attempt(self, step: int, token: str) -> Attempt:
        folder = self._staging / f"step-{step:08d}.{token}"
        (folder / spread(self.place.rank)).mkdir(parents=True, exist_ok=True)
        return Attempt(step, folder)

    def writer(self, attempt: Attempt, *, copied: bool = False) -> Any:
        from trainer.checkpoint.reading import Spread

        return Spread(attempt.folder, spread, **ahead(copied))

    def finish(self, attempt: Attempt) -> dict[str, File]:
        if not self.place.node_leader:
            return {}
        until = time.monotonic() + self._upload_seconds
        time.sleep(random.uniform(0, JITTER_SECONDS * (1 - 1 / self.place.nodes)))
        files = {}
        for name in owned(attempt.folder, self.place.on_node) + [METADATA] * self.place.leader:
            key = self.address.key(attempt.folder.name, name)
            sent = self.objects.upload(key, attempt.folder / name, self._part_bytes, until=until)
            files[name] = File(sent.size, sent.sha256, sent.part_bytes, sent.parts)
        shutil.rmtree(attempt.folder, ignore_errors=True)
        return files

    def commit(self, attempt: Attempt, commit: Commit) -> None:
        self.objects.put(self.address.key(attempt.folder.name, COMMIT), commit.text().encode())

    def discard(self, attempt: Attempt) -> None:
        if self.place.node_leader:
            shutil.rmtree(attempt.folder, ignore_errors=True)
        if self.place.leader:
            self._remove(self._found(f"{attempt.folder.name}/"))

    def saved(self) -> list[Saved]:
        complete = [Saved(found.step, name) for name, found in self._found("step-").items() if found.complete]
        return sorted(complete, key=lambda saved: (saved.step, saved.name), reverse=True)

    def read_commit(self, saved: Saved) -> Commit:
        try:
            return parse_commit(self.objects.read(self.address.key(saved.name, COMMIT)))
        except Missing as error:
            raise Damaged(f"{COMMIT} is missing") from error

    def verify(self, saved: Saved, commit: Commit) -> None:
        """Sizes only, by one listing; checksums are looked at as the bytes arrive."""
        if not self.place.leader:
            return
        there = self._found(f"{saved.name}/").get(saved.name, Found(saved.step)).files
        for name, file in sorted(commit.files.items()):
            if name not in there:
                raise Damaged(f"{name} is missing")
            if there[name] != file.size:
                raise Damaged(f"{name} has {there[name]} bytes instead of {file.size}")

    def reader(self, saved: Saved, commit: Commit) -> Any:
        from trainer.checkpoint.reading import Reader

        return Reader(self.objects, self.address.below(saved.name), commit.files)

    def condemn(self, saved: Saved, reason: str) -> None:
        self.objects.put(self.address.key(saved.name, DAMAGED), json.dumps({"reason": reason}).encode())

    def condemned(self) -> list[int]:
        found = self._found("step-").values()
        return sorted((one.step for one in found if {COMMIT, DAMAGED} <= set(one.files)), reverse=True)

    def sweep(self) -> None:
        if self.place.node_leader:
            self._sweep_staging()
        if self.place.leader:
            self._remove(_remains(self._found("step-")))
            prefix = self.address.key("step-")
            for key, upload in self.objects.uploads(prefix):
                if _KEY.fullmatch(self._below(key)):
                    self.objects.abort(key, upload)

    def prune(self, keep: int, keep_every: int | None) -> list[int]:
        found = self._found("step-")
        complete = {name: one for name, one in found.items() if one.complete}
        steps = sorted({one.step for one in complete.values()}, reverse=True)
        gone = excess(steps, keep, keep_every)
        oldest = min(set(steps) - set(gone), default=0)
        doomed = _remains(found) | {name: one for name, one in complete.items() if one.step in gone}
        for name, one in found.items():
            if DAMAGED in one.files and one.step < oldest:
                doomed[name] = one
        self._remove(doomed)
        return gone

    def traffic(self) -> dict[str, int]:
        counts = self.objects.counts
        now = (counts.requests.total(), counts.retries, counts.sent_bytes)
        since = [new - old for new, old in zip(now, self._told, strict=True)]
        self._told = now
        return dict(zip(("requests", "retries", "bytes"), since, strict=True))

    def _sweep_staging(self) -> None:
        """What this host wrote under any number: torchrun numbers the nodes anew when one of them is lost. A shared
        folder has those of other hosts too, which are theirs to remove."""
        for folder in self._staging.parent.glob("*.*"):
            if folder.name.rpartition(".")[0] == self._host:
                shutil.rmtree(folder, ignore_errors=True)

    def _below(self, key: str) -> str:
        return key.removeprefix(self.address.key("")).lstrip("/")

    def _found(self, below: str) -> dict[str, Found]:
        """By name of the attempt; what is not ours is not seen."""
        found: dict[str, Found] = {}
        for entry in self.objects.entries(self.address.key(below)):
            if match := _KEY.fullmatch(self._below(entry.key)):
                name, step, file = match.groups()
                found.setdefault(name, Found(int(step))).files[file] = entry.size
        return found

    def _remove(self, doomed: dict[str, Found]) -> None:
        """Commits first: half removed must not look complete."""
        waves: dict[bool, list[str]] = defaultdict(list)
        for name, found in doomed.items():
            for file in found.files:
                waves[file == COMMIT].append(self.address.key(name, file))
        for commits in (True, False):
            self.objects.delete(waves[commits])


def _remains(found: dict[str, Found]) -> dict[str, Found]:
    """Attempts that were never completed."""
    return {name: one for name, one in found.items() if COMMIT not in one.files}
