"""Problems of a stack file: found all at once, each with its path and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. `path` is as written in the file: shardyard:nodeGroups.p5.zone."""

    path: str
    what: str
    todo: str

    def __str__(self) -> str:
        return f"{self.path}\n  {self.what}\n  → {self.todo}"


class SettingsError(Exception):
    """Everything that is wrong with one stack file."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(dict.fromkeys(problems))
        count = len(self.problems)
        title = f"{source}: {count} problem{'s' if count != 1 else ''}"
        super().__init__("\n\n".join([title, *map(str, self.problems)]))
