"""How parameters are updated."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainer.config.section import Count, Fraction, Section


class Optimiser(Section):
    """AdamW, with the gradient clipped by its global norm."""

    learning_rate: Annotated[float, Field(gt=0)] = 3e-4
    beta1: Fraction = 0.9
    beta2: Fraction = 0.95
    epsilon: Annotated[float, Field(gt=0)] = 1e-8
    weight_decay: Annotated[float, Field(ge=0)] = 0.1
    """For matrices; norms and biases are never decayed."""
    clip: Annotated[float, Field(gt=0)] | None = 1.0


class Schedule(Section):
    """Linear warm-up, then half a cosine down to a floor at the last step."""

    warmup: Count = 0
    """Steps."""
    floor: Fraction = 0.1
    """Share of the peak rate that the last step has."""
