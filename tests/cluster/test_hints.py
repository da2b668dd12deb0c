"""Every problem says what to do, with an example that is right."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from pydantic.fields import FieldInfo

from cluster.settings import schema
from cluster.settings.problems import Problem
from cluster.settings.stack import StackFile
from cluster.settings.validation import MISSING, validate

KEYS = [
    pytest.param(info, id=f"{section.__name__}.{key}")
    for section in schema.sections(StackFile)
    for key, info in schema.keys(section).items()
]
WRONG: list[Any] = [
    None,
    True,
    -1,
    10**9,
    0.5,
    "",
    "what ever",
    [],
    [1],
    ["x"] * 60,
    {},
    {"a": 1},
    {"kind": "odcr"},
]


@pytest.mark.parametrize("info", KEYS)
def test_the_example_of_every_key_is_valid(info: FieldInfo) -> None:
    found: list[Problem] = []
    assert validate(info.annotation, schema.of(info), "key", found, tuple(info.metadata)) is not MISSING, (
        found
    )
    assert yaml.safe_load(schema.written(schema.of(info))) == schema.of(info)


@pytest.mark.parametrize("info", KEYS)
def test_whatever_is_wrong_has_a_hint_in_our_own_words(info: FieldInfo) -> None:
    for value in WRONG:
        found: list[Problem] = []
        valid = validate(info.annotation, value, "key", found, tuple(info.metadata))
        assert (valid is MISSING) == bool([one for one in found if one.what != "is not a known key"])
        for problem in found:
            assert problem.what and problem.todo.endswith((".", "?")), problem
            assert "nput should" not in str(problem) and "is not valid here" not in str(problem), problem
