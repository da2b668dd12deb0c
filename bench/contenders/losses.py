"""The mean loss of every ten steps, written where the coordinator reads it."""

from __future__ import annotations

import json
import os
from pathlib import Path

EVERY = 10
"""Steps between two reports, for every contender."""


class Losses:
    def __init__(self, output: Path) -> None:
        self._path = output / "losses.json"
        self._means: list[float] = []

    def add(self, mean: float) -> None:
        """A mean over ten steps and all processes; only the first process writes."""
        self._means.append(mean)
        if os.environ["RANK"] == "0":
            self._path.write_text(json.dumps(self._means))
