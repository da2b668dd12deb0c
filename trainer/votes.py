"""Agreement of all processes at the end of each phase, with a limit on waiting.

Without it, one process that fails while the others are inside a collective leaves them waiting for their own,
much longer, time limit, and the log shows everyone's complaint but the cause. A vote goes through the key-value
store of the rendezvous, not through a collective: it works when collectives don't, and it can name who is missing.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from torch.distributed import DistStoreError, PrefixStore, Store

from trainer import exits


class Lost(exits.Failure):
    """Some process did not vote in time."""


class Control:
    """Votes over a store. `prefix` must be the same on all processes and new at each start."""

    def __init__(self, store: Store, prefix: str, rank: int, world: int) -> None:
        self._store = PrefixStore(prefix, store)
        self._rank, self._world = rank, world
        self._votes = 0
        self._store.set(f"host/{rank}", socket.gethostname())

    @contextmanager
    def phase(self, name: str, seconds: float) -> Iterator[None]:
        """Run the body on every process; all go on if it succeeded everywhere, else all raise the first error.

        Raises exits.Failure with the failing process's message and status, or Lost after `seconds`.
        """
        self._votes += 1
        key = f"{self._votes}/{name}"
        try:
            yield
        except Exception as error:
            message = str(error) if isinstance(error, exits.Failure) else f"{type(error).__name__}: {error}"
            status = error.status if isinstance(error, exits.Failure) else exits.RETRY
            own = json.dumps({"rank": self._rank, "message": message, "status": status})
            self._store.compare_set(f"{key}/outcome", "", own)
            self._store.set(f"{key}/{self._rank}", "failed")
            outcome: dict[str, Any] = json.loads(self._store.get(f"{key}/outcome"))
            if outcome["rank"] != self._rank:  # most likely only a consequence of what failed there
                raise exits.Failure(self._sentence(name, outcome), outcome["status"]) from error
            if isinstance(error, exits.Failure):
                raise
            raise exits.Failure(self._sentence(name, outcome), status) from error
        self._store.set(f"{key}/{self._rank}", "done")
        if self._store.add(f"{key}/done", 1) == self._world:
            self._store.set(f"{key}/outcome", json.dumps(None))
        failed = self._wait(key, name, seconds)
        if failed is not None:
            raise exits.Failure(self._sentence(name, failed), failed["status"])

    def _wait(self, key: str, name: str, seconds: float) -> dict[str, Any] | None:
        """What failed, if anything did."""
        try:
            self._store.wait([f"{key}/outcome"], timedelta(seconds=seconds))
        except DistStoreError:
            missing = [rank for rank in range(self._world) if not self._store.check([f"{key}/{rank}"])]
            names = ", ".join(self.name(rank) for rank in missing) or "none (the last one came late)"
            raise Lost(f"{name}: after {seconds:.0f} s still no word from {names}") from None
        failed: dict[str, Any] | None = json.loads(self._store.get(f"{key}/outcome"))
        return failed

    def roll_call(self, occasion: str, seconds: float) -> list[str]:
        """Who does not answer within `seconds`, when something broke outside a vote and everybody calls the roll."""
        self._store.set(f"{occasion}/{self._rank}", "here")
        keys = [f"{occasion}/{rank}" for rank in range(self._world)]
        with suppress(DistStoreError):
            self._store.wait(keys, timedelta(seconds=seconds))
        return [self.name(rank) for rank, key in enumerate(keys) if not self._store.check([key])]

    def name(self, rank: int) -> str:
        """`rank 3 on host trainer-worker-1`"""
        known = self._store.check([f"host/{rank}"])
        return f"rank {rank} on host {self._store.get(f'host/{rank}').decode()}" if known else f"rank {rank}"

    def _sentence(self, name: str, outcome: dict[str, Any]) -> str:
        return f"{name} failed on {self.name(outcome['rank'])}: {outcome['message']}"
