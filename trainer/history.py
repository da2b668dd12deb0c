"""Reading `metrics.jsonl` back. Needs no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class History:
    """A run as one curve, however often it was interrupted."""

    steps: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Reports by step, in order. Steps that were done again after a restart appear once, as done last."""
    held_out: dict[int, float] = field(default_factory=dict)
    starts: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: dict[int, float] = field(default_factory=dict)
    """Seconds by step."""
    left_out: set[int] = field(default_factory=set)
    """Steps whose batch was not used, for good."""
    ends: list[dict[str, Any]] = field(default_factory=list)

    @property
    def losses(self) -> dict[int, float]:
        return {step: facts["loss"] for step, facts in self.steps.items() if facts["loss"] is not None}


def read(path: Path) -> History:
    """A line that a crash cut short is passed over."""
    history = History()
    for text in path.read_text().splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        step = line["step"]
        match line["event"]:
            case "start" | "back":
                if line["event"] == "start":
                    history.starts.append(line)
                for done in [later for later in history.steps if later > step]:
                    del history.steps[done]
                for done in [later for later in history.held_out if later > step]:
                    del history.held_out[done]
            case "step":
                history.steps[step] = line
            case "held_out":
                history.held_out[step] = line["loss"]
            case "checkpoint":
                history.checkpoints[step] = line["seconds"]
            case "left_out":
                history.left_out.add(step)
            case "end":
                history.ends.append(line)
    history.steps = dict(sorted(history.steps.items()))
    return history


def left_out(path: Path) -> set[int]:
    """Steps whose batch earlier starts of a run left out; none where nothing was written yet."""
    return read(path).left_out if path.exists() else set()
