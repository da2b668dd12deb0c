"""Agreement of all processes at the end of each phase, with a limit on waiting.

Without it, one process that fails while the others are inside a collective leaves them waiting for their own,
much longer, time limit, and the log shows everyone's complaint but the cause. A vote goes through the key-value
store of the rendezvous, not through a collective: it works when collectives don't, and it can name who is missing.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed import DistError, PrefixStore, Store

from trainer import exits, flight
from trainer.pulse import INTERVAL, Pulse, Signs

ROLL_CALL_SECONDS = 5.0
"""How long to wait for the others to say that they are alive, after something broke off."""
PATIENCE = 0.6
"""Share of the time limit of a collective after which a process that does not get on says so."""


class Lost(exits.Failure):
    """Some process did not vote in time, or broke off an exchange."""


class Control:
    """Votes over a store. `prefix` must be the same on all processes and new at each start."""

    def __init__(self, store: Store, prefix: str, rank: int, world: int, silence: float) -> None:
        """`silence`: seconds without a sign of life after which a process that is waited for counts as lost."""
        self._store, beats = PrefixStore(prefix, store), PrefixStore(prefix, store.clone())
        self._rank, self._world = rank, world
        self._silence = silence
        self._votes = 0
        self._store.set(f"host/{rank}", socket.gethostname())
        others = [other for other in range(world) if other != rank]
        # The first process watches all others, these watch the first.
        self._watched = others if rank == 0 else [0]
        self._signs = Signs(self._store)
        # Two say where everybody is: the first, and the last, on another node, in case it is the first that hangs.
        speaks = rank in (0, world - 1)
        self.pulse = Pulse(beats, rank, others if speaks else [], PATIENCE * silence)
        if speaks:
            self.pulse.stuck = self._stuck

    @contextmanager
    def phase(self, name: str, seconds: float) -> Iterator[None]:
        """Run the body on every process; all go on if it succeeded everywhere, else all raise the first error.

        Raises exits.Failure with the failing process's message and status, or Lost after `seconds`.
        """
        self._votes += 1
        key = f"{self._votes}/{name}"
        before, self.pulse.doing = self.pulse.doing, lambda: name
        try:
            try:
                yield
            except Exception as error:
                raise self.broke_off(key, name, error) from error
            self._store.set(f"{key}/{self._rank}", "done")
            if self._store.add(f"{key}/done", 1) == self._world:
                self._store.set(f"{key}/outcome", json.dumps(None))
            failed = self._wait(key, seconds)
            if failed is not None:
                raise self._failure(name, failed)
        finally:
            self.pulse.doing = before

    def broke_off(self, key: str, name: str, error: Exception) -> exits.Failure:
        """What to end with when `error` broke off `name`, which all processes were in: the same on all of them.

        A process whose own work failed says so. One that only lost its connection, or waited in vain, first gives
        somebody who has more to say the time to say it, and names those that don't answer.
        """
        self._store.set(f"{key}/{self._rank}", "failed")
        status = error.status if isinstance(error, exits.Failure) else exits.RETRY
        lost = of_a_collective(error)
        if isinstance(error, exits.Failure):
            message = str(error)
        elif lost:
            broken = flight.collective() or "a collective"
            reason = str(error).splitlines()[0].partition(" This is typically")[0]
            absent = self._names(self._absent(key, ROLL_CALL_SECONDS))  # unless somebody knows more
            message = f"{broken}: {reason}; " + (
                f"no answer from {absent}" if absent else "all processes answer"
            )
        else:
            message = f"{type(error).__name__}: {error}"
        outcome = self._settle(key, message, status, lost=lost)
        if outcome["rank"] == self._rank and isinstance(error, exits.Failure):
            return error
        return self._failure(name, outcome)

    def roll_call(self, occasion: str, seconds: float) -> list[str]:
        """Who does not come to `occasion`, where all call the roll, within `seconds`, or gives no sign of life."""
        self._store.set(f"{occasion}/{self._rank}", "here")
        return [self._names([rank]) for rank in self._absent(occasion, seconds)]

    def _absent(self, key: str, seconds: float) -> list[int]:
        missing = list(range(self._world))
        began = looked = time.monotonic()
        while missing and time.monotonic() - began < seconds and not self._store.check([f"{key}/outcome"]):
            time.sleep(0.05)
            missing = self._missing(key, missing)
            if time.monotonic() - looked > INTERVAL:
                looked = time.monotonic()
                self._signs.look(missing)
                if silent := [rank for rank in self._signs.silent(self._silence) if rank in missing]:
                    return silent
        return missing

    def _wait(self, key: str, seconds: float) -> dict[str, Any] | None:
        """What failed, if anything did."""
        began = looked = time.monotonic()
        pause = 0.001
        while True:
            if self._store.check([f"{key}/outcome"]):
                failed: dict[str, Any] | None = json.loads(self._store.get(f"{key}/outcome"))
                return failed
            time.sleep(pause)  # the store's own wait would keep signals out, and log every time limit
            pause = min(0.25, 1.3 * pause)
            now = time.monotonic()
            if now - looked < INTERVAL:
                continue
            looked = now
            self._signs.look(self._watched)
            silent = self._missing(key, self._signs.silent(self._silence))
            if silent:
                reason = f"no sign of life from {self._names(silent)} for {self._silence:.0f} s"
            elif now - began > seconds:
                names = self._names(self._missing(key, range(self._world))) or "none (the last one came late)"
                reason = f"after {seconds:.0f} s still no word from {names}"
            else:
                continue
            return self._settle(key, reason, exits.RETRY, lost=True)

    def _settle(self, key: str, message: str, status: int, *, lost: bool) -> dict[str, Any]:
        """Say how `key` ended, unless somebody did; what all are told."""
        own = json.dumps({"rank": self._rank, "message": message, "status": status, "lost": lost})
        outcome: dict[str, Any] = json.loads(self._store.compare_set(f"{key}/outcome", "", own))
        return outcome

    def _stuck(self, place: str, seconds: float, others: Signs) -> None:
        """Say where the others are, before a time limit ends this process: on a GPU, NCCL's ends it without a word."""
        silent = others.silent(1.5 * INTERVAL)
        ranks = [rank for rank in range(self._world) if rank != self._rank]
        apart = [f"{self.name(rank)} gives no sign of life" for rank in silent]
        apart += [
            f"{self.name(rank)} is in {others.place(rank)}"
            for rank in ranks
            if rank not in silent and others.place(rank) != place
        ]
        if not apart and not place.startswith("step"):
            return  # a phase may take its time
        waits = f", waiting in {operation}" if (operation := flight.waiting()) else ""
        print(
            f"{self.name(self._rank)} has been in {place} for {seconds:.0f} s{waits}; "
            f"{'; '.join(apart) or 'as all others'}",
            file=sys.stderr,
            flush=True,
        )

    def _missing(self, key: str, ranks: Iterable[int]) -> list[int]:
        return [rank for rank in ranks if not self._store.check([f"{key}/{rank}"])]

    def _names(self, ranks: list[int]) -> str:
        """`rank 3 on host trainer-worker-1 (last seen in step 7, passes)`"""
        self._signs.look(ranks)
        places = {rank: self._signs.place(rank) for rank in ranks}
        return ", ".join(
            self.name(rank) + (f" (last seen in {place})" if place else "") for rank, place in places.items()
        )

    def name(self, rank: int) -> str:
        """`rank 3 on host trainer-worker-1`"""
        known = self._store.check([f"host/{rank}"])
        return f"rank {rank} on host {self._store.get(f'host/{rank}').decode()}" if known else f"rank {rank}"

    def _failure(self, name: str, outcome: dict[str, Any]) -> exits.Failure:
        """Who lost somebody is as good a witness as any: only who failed is named."""
        if outcome["lost"]:
            return Lost(f"{name}: {outcome['message']}", outcome["status"])
        return exits.Failure(
            f"{name} failed on {self.name(outcome['rank'])}: {outcome['message']}", outcome["status"]
        )


def of_a_collective(error: Exception) -> bool:
    """Whether it comes from a broken or timed out exchange between processes, as the backends word it."""
    text = str(error)
    words = ("gloo", "NCCL", "Connection", "Timed out", "timed out", "Socket")
    return isinstance(error, DistError) or (
        isinstance(error, RuntimeError) and any(word in text for word in words)
    )
