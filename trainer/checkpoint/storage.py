"""What every kind of storage for checkpoints does."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.checkpoint.commits import Commit, File

METADATA = ".metadata"
"""What DCP's coordinator writes: which tensor lies where."""
_OWNER = re.compile(r"__(\d+)_\d+\.distcp")


@dataclass(frozen=True)
class Place:
    """Which process this is, as far as storage cares."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1

    @property
    def leader(self) -> bool:
        return self.rank == 0

    @property
    def node_leader(self) -> bool:
        return self.local_rank == 0

    @property
    def nodes(self) -> int:
        return max(1, self.world // self.local_world)

    @property
    def on_node(self) -> range:
        """Ranks of this node; torchrun numbers them in a row."""
        first = self.rank - self.local_rank
        return range(first, first + self.local_world)


@dataclass(frozen=True)
class Saved:
    """A complete checkpoint; `name` is how its storage finds it."""

    step: int
    name: str


@dataclass(frozen=True)
class Attempt:
    """A checkpoint in the making."""

    step: int
    folder: Path
    """Where DCP writes this process's files."""


def owned(folder: Path, ranks: Sequence[int]) -> list[str]:
    """Names, below a folder, of the files that DCP wrote for these ranks."""
    found = ((path, _OWNER.fullmatch(path.name)) for path in folder.rglob("__*"))
    return sorted(
        path.relative_to(folder).as_posix() for path, match in found if match and int(match[1]) in ranks
    )


class Storage(ABC):
    """The checkpoints of one run, on one process.

    "All" marks what every process calls (and does its part of), "leader" what only the leader calls. Whatever cannot
    be done raises OSError or exits.Failure.
    """

    place: Place

    @abstractmethod
    def __str__(self) -> str:
        """Where it is, for people."""

    @abstractmethod
    def attempt(self, step: int, token: str) -> Attempt:
        """All: begin a checkpoint; `token` makes its name unique to one attempt."""

    @abstractmethod
    def writer(self, attempt: Attempt, *, copied: bool = False) -> Any:
        """All: DCP's writer for it. What is `copied` lies in the host's memory already."""

    @abstractmethod
    def finish(self, attempt: Attempt) -> dict[str, File]:
        """All, once DCP is through on all: bring this process's part where it belongs; returns what that was. May
        run in a thread."""

    @abstractmethod
    def commit(self, attempt: Attempt, commit: Commit) -> None:
        """Leader, once all have finished: make it a checkpoint, at one stroke."""

    @abstractmethod
    def discard(self, attempt: Attempt) -> None:
        """All, once nobody works on it any more: leave nothing of a failed attempt."""

    @abstractmethod
    def saved(self) -> list[Saved]:
        """Leader: the complete checkpoints, newest first."""

    @abstractmethod
    def read_commit(self, saved: Saved) -> Commit:
        """All. Raises Damaged; OSError or exits.Failure where it can't be read, which says nothing about it."""

    @abstractmethod
    def verify(self, saved: Saved, commit: Commit) -> None:
        """All, each a share: what must be checked before reading. Raises as `read_commit` does."""

    @abstractmethod
    def reader(self, saved: Saved, commit: Commit) -> Any:
        """All: DCP's reader for it; what it reads may raise Damaged, inside of DCP's own exception."""

    @abstractmethod
    def condemn(self, saved: Saved, reason: str) -> None:
        """Leader: let a damaged checkpoint count no more, but keep it for a person to look at for a while."""

    @abstractmethod
    def condemned(self) -> list[int]:
        """Leader: steps of those that were complete once, newest first."""

    @abstractmethod
    def sweep(self) -> None:
        """All: remove what crashed saves of this run left. Only when nobody is writing."""

    @abstractmethod
    def prune(self, keep: int, keep_every: int | None) -> list[int]:
        """Leader: remove all but the newest `keep` and every step that is a multiple of `keep_every`; returns what
        went. Only when nobody is writing."""

    def traffic(self) -> dict[str, int]:
        """What went over a network since the last call, by this process."""
        return {}


def ahead(copied: bool) -> dict[str, int]:
    """Settings of DCP's writer for what is in the host's memory already: by itself it copies from the GPU, and waits
    for the training's kernels every 10 MB (on the first GPU, in a thread that no other was chosen for)."""
    return {"per_thread_copy_ahead": 0} if copied else {}


def excess(steps: Sequence[int], keep: int, keep_every: int | None) -> list[int]:
    """Those of `steps` (newest first) that retention does not keep."""
    return [step for step in steps[keep:] if not keep_every or step % keep_every]
