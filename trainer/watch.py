"""Runs gone wrong: gradients that are not finite, losses that jump."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from enum import Enum
from statistics import median

from trainer import exits
from trainer.config import Watch as Settings
from trainer.report import Report

WINDOW = 20
"""Reported losses whose median a new one is compared with."""


class Verdict(Enum):
    """What to do with a gradient."""

    UPDATE = "use it"
    SKIP = "leave it out"
    GO_BACK = "return to the last checkpoint, and leave it out the next time"


class Watch:
    """Decides from values that are equal on all processes, so all decide alike."""

    def __init__(self, settings: Settings, report: Report, left_out: Iterable[int] = ()) -> None:
        self._settings = settings
        self._report = report
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self.left_out = set(left_out)
        """Steps whose batch is not used: what earlier starts left out stays out, so that a step that is done again has
        the same outcome."""

    def gradient(self, step: int, norm: float) -> Verdict:
        """Judge the gradient of a step by its norm. Raises exits.Failure where the policy is to stop."""
        if step in self.left_out:
            return Verdict.SKIP
        if math.isfinite(norm):
            return Verdict.UPDATE
        policy, limit = self._settings.non_finite, self._settings.non_finite_limit
        reason = f"step {step}: the gradient is not finite (norm {norm})"
        if policy == "stop":
            raise exits.Failure(reason, exits.DIVERGED)
        self.left_out.add(step)
        if len(self.left_out) > limit:
            raise exits.Failure(f"{reason}, after {limit} batches were left out already", exits.DIVERGED)
        then = ", from the last checkpoint on" if policy == "roll_back" else ""
        self._report.left_out(step, f"{reason}; its batch is left out{then}")
        return Verdict.GO_BACK if policy == "roll_back" else Verdict.SKIP

    def loss(self, step: int, loss: float) -> None:
        """Look at a reported loss, and warn of a jump."""
        spike = self._settings.spike
        if spike and len(self._losses) == WINDOW and loss > spike * median(self._losses):
            self._report.spike(step, loss, loss / median(self._losses))
        if math.isfinite(loss):
            self._losses.append(loss)
