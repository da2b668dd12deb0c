"""Shared by all tests: which machine this is, and why a test can't run on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from lab.settings import Lab

PROJECT = Path(__file__).resolve().parents[1]

# How long an example takes says more about what else the machine does than about the example.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples every time, so that a rare one stops nobody who changed something else;
# `pytest --hypothesis-profile=explore` draws new ones.
settings.register_profile("steady", PATIENT, derandomize=True)
settings.register_profile("explore", PATIENT)
settings.load_profile("steady")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `lab` need Linux, root and the toolchain: skip them elsewhere, saying which is missing."""
    reason = missing()
    if reason is None:
        return
    for item in items:
        if item.get_closest_marker("lab"):
            item.add_marker(pytest.mark.skip(reason=reason))


def missing() -> str | None:
    """Why the local stack can't run here, or None."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "the local stack needs root on Linux"
    if not (Lab.from_environment().bin / "pulumi").exists():
        return "the toolchain is not built: `.venv/bin/python -m lab tools`"
    return None
