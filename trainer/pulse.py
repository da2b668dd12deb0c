"""A sign of life from each process, and what it is doing.

Who waits for a process that was killed or stopped on another machine learns nothing from the network, and would sit
out the whole time limit of a phase. A thread in each process counts up in the store of the rendezvous; whoever waits
can see that a count stands still.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from torch.distributed import DistError, Store

INTERVAL = 2.0
"""Seconds between two signs."""


def by_rank(store: Store, kind: str, ranks: Iterable[int]) -> dict[int, str]:
    """What stands under `kind/RANK` for these processes, without those that have said nothing yet."""
    keys = {rank: f"{kind}/{rank}" for rank in ranks}
    if keys and not store.check(list(keys.values())):  # right after the start
        keys = {rank: key for rank, key in keys.items() if store.check([key])}
    values = store.multi_get(list(keys.values())) if keys else []
    return {rank: value.decode() for rank, value in zip(keys, values, strict=True)}


class Signs:
    """What one onlooker has seen of the signs of others."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[int, tuple[str, float]] = {}
        """Of each process its newest sign, and when it was new."""

    def look(self, ranks: Iterable[int]) -> None:
        for rank, sign in by_rank(self._store, "pulse", ranks).items():
            if self._seen.get(rank, ("",))[0] != sign:
                self._seen[rank] = (sign, time.monotonic())

    def silent(self, seconds: float) -> list[int]:
        """Those of whom nothing new was seen for so long."""
        now = time.monotonic()
        return [rank for rank, (_, when) in self._seen.items() if now - when > seconds]

    def place(self, rank: int) -> str:
        """What it said it was doing; "" if nothing was seen of it."""
        return self._seen.get(rank, ("",))[0].partition(" ")[2]


class Pulse:
    """The thread that gives this process's signs, and watches for it to be stuck."""

    def __init__(self, store: Store, rank: int, others: Sequence[int], patience: float) -> None:
        """`store` must not be used by anybody else. `others` are kept in view; `patience` is in seconds."""
        self.doing: Callable[[], str] = lambda: ""
        """What a person would want to know of this process now."""
        self.stuck: Callable[[str, float, Signs], None] = lambda place, seconds, others: None
        """Called, by the thread, once this process has been doing the same for longer than `patience`."""
        self._store, self._rank, self._others, self._patience = store, rank, others, patience
        self._signs = Signs(store)
        self._count = 0
        self._beat()
        threading.Thread(target=self._run, name="pulse", daemon=True).start()

    def _beat(self) -> None:
        self._count += 1
        self._store.set(f"pulse/{self._rank}", f"{self._count} {self.doing()}")

    def _run(self) -> None:
        place, since = "", time.monotonic()
        while True:
            time.sleep(INTERVAL)
            try:
                self._beat()
                self._signs.look(self._others)
                now = time.monotonic()
                if self.doing() != place:
                    place, since = self.doing(), now
                elif place and now - since > self._patience:
                    self.stuck(place, now - since, self._signs)
                    since = float("inf")  # once is enough
            except DistError:  # the store is gone, and the run with it
                return
