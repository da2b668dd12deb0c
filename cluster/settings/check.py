"""A check: a rule that compares parts of the settings with each other."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.settings.problems import Problem
from cluster.settings.stack import PARTS


@dataclass(frozen=True)
class Check:
    """A rule and the names of the parts that it compares.

    The names are verified here, at import: a misspelt one would otherwise switch the rule off silently.
    Raises ValueError for an unknown part, and TypeError where the rule has other parameters.
    """

    rule: Callable[..., Iterator[Problem]]
    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        name = self.rule.__name__
        if unknown := set(self.parts) - PARTS:
            raise ValueError(f"{name} compares {', '.join(sorted(unknown))}, which the settings don't have")
        if tuple(inspect.signature(self.rule).parameters) != self.parts:
            raise TypeError(f"{name} doesn't have the parameters {', '.join(self.parts)}")

    def run(self, valid: Mapping[str, Any]) -> Iterator[Problem]:
        """What is wrong, if all parts are valid by themselves; otherwise nothing."""
        if all(part in valid for part in self.parts):
            yield from self.rule(*(valid[part] for part in self.parts))
