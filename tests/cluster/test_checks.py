"""The register of checks: a rule that is switched off by a misspelt name doesn't exist."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.settings import checks, checks_capacity, checks_network, checks_training, checks_versions
from cluster.settings.check import Check
from cluster.settings.problems import Problem


def rule(network: Any, storage: Any) -> Iterator[Problem]:
    yield Problem("network", f"{network} {storage}", "Nothing.")


def misspelt(netwrk: Any) -> Iterator[Problem]:
    yield Problem("network", str(netwrk), "Nothing.")


def test_a_misspelt_part_is_an_error_at_import() -> None:
    with pytest.raises(ValueError, match="misspelt compares netwrk"):
        Check(misspelt, ("netwrk",))
    with pytest.raises(TypeError, match="doesn't have the parameters network"):
        Check(misspelt, ("network",))
    with pytest.raises(TypeError, match="storage, network"):
        Check(rule, ("storage", "network"))


def test_a_check_runs_when_all_its_parts_are_valid() -> None:
    check = Check(rule, ("network", "storage"))
    assert list(check.run({"network": 1})) == []
    assert [problem.what for problem in check.run({"network": 1, "storage": 2})] == ["1 2"]


def test_every_rule_is_registered_once() -> None:
    modules = (checks_capacity, checks_network, checks_training, checks_versions)
    written = {
        function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isgeneratorfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    registered = [check.rule for check in checks.CHECKS]
    assert len(registered) == len(set(registered))
    assert set(registered) == written
