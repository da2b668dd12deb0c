"""What the sections of a stack file must agree on. Each check is a function of the sections it compares,
named by its parameters, and runs when all of them are valid by themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cluster.settings import checks_capacity, checks_network, checks_training, checks_versions
from cluster.settings.problems import Problem

CHECKS: tuple[Callable[..., Iterator[Problem]], ...] = (
    *checks_network.CHECKS,
    *checks_versions.CHECKS,
    *checks_capacity.CHECKS,
    *checks_training.CHECKS,
)


def run(parts: Mapping[str, Any]) -> Iterator[Problem]:
    """Every problem, with its path below the project's own prefix."""
    for check in CHECKS:
        needed = inspect.signature(check).parameters
        if all(name in parts for name in needed):
            yield from check(**{name: parts[name] for name in needed})
