"""What all sections of a job file are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]
Seconds = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Section(BaseModel):
    """A part of the job file: frozen, and closed to keys that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)
