"""Matrices of cases: the gate (`make test`) runs a covering set, `make soak` runs all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def cases(names: Iterable[str], soak: Collection[str]) -> list[Any]:
    """Parameters for `pytest.mark.parametrize`: those in `soak` are marked so."""
    return [pytest.param(name, marks=pytest.mark.soak) if name in soak else name for name in names]
