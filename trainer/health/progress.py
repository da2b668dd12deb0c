"""What the measuring processes tell through the rendezvous' store: how far they got, what they found, what ended them.

The store answers when collectives don't, and from a process that another one has to end.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch.distributed import PrefixStore, TCPStore

from trainer.pulse import Pulse, Signs, by_rank

SETTLE_SECONDS = 4.0
"""From the first failure to the verdict: others may have failed of the same cause, and know more."""
WAITING = "waiting for the other nodes"
"""Where a process is that no measurement of its own holds up."""


@dataclass(frozen=True)
class Failure:
    """How the work of one process ended before its time."""

    reason: str
    place: str
    lost: bool
    """It only lost others: they know the cause."""


class Progress:
    """The keys of one start."""

    def __init__(self, store: TCPStore, name: str) -> None:
        self.store = PrefixStore(f"{name}/health", store)

    def done(self, rank: int, result: dict[str, Any]) -> None:
        self._ended(rank, {"result": result})

    def failed(self, rank: int, reason: str, *, place: str = "", lost: bool = False) -> None:
        self._ended(rank, {"reason": reason, "place": place, "lost": lost})

    def _ended(self, rank: int, content: dict[str, Any]) -> None:
        self.store.compare_set(f"ended/{rank}", "", json.dumps(content))  # the first word counts
        self.store.add("ends", 1)

    def has_ended(self, rank: int) -> bool:
        return bool(self.store.check([f"ended/{rank}"]))

    def ends(self) -> int:
        """Grows when a process ends."""
        return int(self.store.add("ends", 0))

    def end(self, rank: int) -> dict[str, Any] | Failure | None:
        """Its result, or why there is none; None while it works."""
        if not self.has_ended(rank):
            return None
        content = json.loads(self.store.get(f"ended/{rank}"))
        return content["result"] if "result" in content else Failure(**content)

    def at(self, rank: int, place: str) -> None:
        """Where it is now."""
        self.store.set(f"place/{rank}", place)

    def places(self, ranks: Iterable[int]) -> dict[int, str]:
        return by_rank(self.store, "place", ranks)

    def found(self, rank: int, bandwidth: list[Any]) -> None:
        """What it has measured up to now."""
        self.store.set(f"bandwidth/{rank}", json.dumps(bandwidth))

    def bandwidth(self, rank: int) -> list[Any]:
        key = f"bandwidth/{rank}"
        return list(json.loads(self.store.get(key))) if self.store.check([key]) else []

    def conclude(self, status: int) -> None:
        self.store.set("status", str(status))

    def status(self) -> int | None:
        """The leader's conclusion."""
        return int(self.store.get("status")) if self.store.check(["status"]) else None


class Tracker:
    """What the leader makes of the progress of all."""

    def __init__(self, progress: Progress, world: int, limit: float, silence: float) -> None:
        """`limit`: seconds without progress anywhere after which the work hangs; `silence`: without a sign of life."""
        self._progress, self._limit, self._silence = progress, limit, silence
        self._signs = Signs(progress.store)
        self._ends = 0
        self._working = set(range(world))
        self.results: dict[int, dict[str, Any]] = {}
        self.failures: dict[int, Failure] = {}
        self._failed_at: float | None = None
        self._places: dict[int, str] = {}
        self._moved = time.monotonic()

    @property
    def done(self) -> bool:
        return not self._working and not self.failures

    def look(self) -> None:
        ends = self._progress.ends()
        if ends != self._ends:
            self._ends = ends
            for rank in sorted(self._working):
                end = self._progress.end(rank)
                if isinstance(end, Failure):
                    self.failures[rank] = end
                elif end is not None:
                    self.results[rank] = end
            self._working -= self.failures.keys() | self.results.keys()
            self._moved = time.monotonic()
        if self.failures and self._failed_at is None:
            self._failed_at = time.monotonic()
        self._signs.look(self._working)
        places = self._progress.places(self._working)
        if places != self._places:
            self._places, self._moved = places, time.monotonic()

    def troubles(self) -> dict[str, list[int]]:
        """What broke the work off, each with the processes that it is about; empty while there is hope."""
        now = time.monotonic()
        causes = {rank: one for rank, one in self.failures.items() if not one.lost}
        if self._failed_at is not None and now - self._failed_at > SETTLE_SECONDS and causes:
            return by_text((rank, _in(one.reason, one.place)) for rank, one in causes.items())
        if silent := [rank for rank in self._signs.silent(self._silence) if rank in self._working]:
            return self._at(silent, "no sign of life")
        if self._failed_at is not None and now - self._failed_at > 2 * self._silence:
            return by_text((rank, _in(one.reason, one.place)) for rank, one in self.failures.items())
        if now - self._moved > self._limit:
            held = [rank for rank in self._working if self._places.get(rank) != WAITING]
            return self._at(held or sorted(self._working), f"no progress for {self._limit:.0f} s")
        return {}

    def unfinished(self) -> dict[str, list[int]]:
        """Where all are that have not come to an end."""
        return self._at(sorted(self._working), "not done")

    def _at(self, ranks: list[int], what: str) -> dict[str, list[int]]:
        return by_text((rank, _in(what, self._places.get(rank, ""))) for rank in ranks)


def _in(what: str, place: str) -> str:
    return f"{what}, in {place}" if place else what


def by_text(pairs: Iterable[tuple[int, str]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for rank, text in pairs:
        found.setdefault(text, []).append(rank)
    return found


def give_signs(store: TCPStore, name: str, rank: int) -> None:
    """From now on, from a thread."""
    Pulse(Progress(store.clone(), name).store, rank, [], float("inf"))
