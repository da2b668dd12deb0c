"""Runs gone wrong: gradients that are not finite, losses that jump."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from statistics import median

from trainer import exits
from trainer.config import Watch as Settings

WINDOW = 20
"""Reported losses whose median a new one is compared with."""


class Watch:
    """Decides from values that are equal on all processes, so all decide alike."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._losses: deque[float] = deque(maxlen=WINDOW)
        self.left_out: list[int] = []
        """Steps whose batch was not used."""

    def usable(self, step: int, norm: float) -> bool:
        """Whether to update with a gradient of this norm. Raises exits.Failure where the policy is to stop."""
        if math.isfinite(norm):
            return True
        if self._settings.non_finite == "stop":
            raise exits.Failure(f"step {step}: the gradient is not finite (norm {norm})", exits.DIVERGED)
        self.left_out.append(step)
        if len(self.left_out) > self._settings.non_finite_limit:
            raise exits.Failure(
                f"step {step}: the gradient is not finite, for the {len(self.left_out)}th time",
                exits.DIVERGED,
            )
        self._say(f"step {step}: the gradient is not finite (norm {norm}); its batch is left out")
        return False

    def loss(self, step: int, loss: float) -> None:
        """Look at a reported loss, and warn of a jump."""
        spike = self._settings.spike
        if spike and len(self._losses) == WINDOW and loss > spike * median(self._losses):
            self._say(
                f"step {step}: loss {loss:.4f} is {loss / median(self._losses):.1f} times its running median"
            )
        self._losses.append(loss)
