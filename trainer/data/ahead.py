"""The next step's batch, made ready by a thread while this step computes."""

from __future__ import annotations

import threading
from dataclasses import replace

from trainer.data.batches import Batches, Micro


class Ahead:
    """Batches of one step after the other; any other step costs the wait for it.

    What a step gets depends on its number alone, so there is nothing to undo when a run goes back or ends. An error
    of the thread is raised where the batch is asked for.
    """

    def __init__(self, batches: Batches, sequences: int, seed: int, *, last: int, pin: bool = False) -> None:
        """`sequences` of one step, over all processes; `last` step of the job; `pin` memory for a GPU's copies."""
        self._batches, self._sequences, self._seed = batches, sequences, seed
        self._last, self._pin = last, pin
        self._next: _Task | None = None

    def step(self, step: int) -> list[Micro]:
        """This process's share of optimiser step `step` (from 1 on)."""
        task = self._next if self._next and self._next.step == step else _Task(self, step)
        micros = task.result()
        self._next = _Task(self, step + 1) if step < self._last else None
        return micros

    def read(self, step: int) -> list[Micro]:
        micros = self._batches.step(step, self._sequences, self._seed)
        if self._pin:
            micros = [
                replace(one, inputs=one.inputs.pin_memory(), targets=one.targets.pin_memory())
                for one in micros
            ]
        return micros


class _Task:
    """One step's batch in the making. The thread ends by itself, and keeps no process from ending."""

    def __init__(self, ahead: Ahead, step: int) -> None:
        self.step, self._ahead = step, ahead
        self._micros: list[Micro] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=f"batch-{step}", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._micros = self._ahead.read(self.step)
        except BaseException as error:
            self._error = error

    def result(self) -> list[Micro]:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._micros
