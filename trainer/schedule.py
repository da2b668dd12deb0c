"""The learning rate of each step: a pure function, so that a restart needs no state."""

from __future__ import annotations

import math

from trainer.config import Schedule


def rate(step: int, steps: int, peak: float, schedule: Schedule) -> float:
    """Learning rate of step 1 … steps: up in a line to `peak` at step `warmup`, down a cosine to floor x peak."""
    if step <= schedule.warmup:
        return peak * step / schedule.warmup
    progress = (step - schedule.warmup) / (steps - schedule.warmup)
    low = peak * schedule.floor
    return low + (peak - low) * (1 + math.cos(math.pi * progress)) / 2
