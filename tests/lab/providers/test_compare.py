"""What counts as a change, and what a refresh shows as one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.providers.aws.compare import equivalent, spelled_as
from lab.providers.aws.table import Property
from lab.providers.aws.wire import UNKNOWN

PLAIN = Property("p")
ORDERED = Property("p", ordered=True)
JSON = Property("p", json=True)

documents = st.recursive(
    st.booleans() | st.integers(0, 9) | st.text("abc", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, "true"),
        (20, "20"),
        (20, 20.0),
        (None, ""),
        (None, False),
        ([], None),
        ({}, None),
        ({"a": 1, "b": None}, {"a": 1}),
        (["a", "b"], ["b", "a"]),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00+00:00"),
        ([{"a": 1}, {"a": 2}], [{"a": "2"}, {"a": "1"}]),
    ],
)
def test_same_in_other_words(one: Any, other: Any) -> None:
    assert equivalent(one, other, PLAIN)
    assert equivalent(other, one, PLAIN)


@pytest.mark.parametrize(
    ("one", "other"),
    [(True, False), (1, 2), (0, None), ("a", "b"), (["a"], ["a", "a"]), ({"a": 1}, {"a": 2}), ("a", None)],
)
def test_different(one: Any, other: Any) -> None:
    assert not equivalent(one, other, PLAIN)


def test_order_counts_where_it_means_something() -> None:
    assert not equivalent(["m6i.large", "m7i.large"], ["m7i.large", "m6i.large"], ORDERED)


def test_unknown_equals_nothing() -> None:
    assert not equivalent(UNKNOWN, UNKNOWN, PLAIN)


def test_policies_are_compared_by_meaning() -> None:
    one = {"Statement": [{"Action": ["s3:Get*"], "Effect": "Allow", "Resource": ["b", "a"]}]}
    other = {"Statement": {"Resource": ["a", "b"], "Effect": "Allow", "Action": "s3:Get*"}}
    assert equivalent(json.dumps(one), json.dumps(other), JSON)
    other["Statement"]["Effect"] = "Deny"
    assert not equivalent(json.dumps(one), json.dumps(other), JSON)


@given(documents)
def test_everything_is_the_same_as_itself(value: Any) -> None:
    assert equivalent(value, value, PLAIN)
    assert spelled_as(value, value, PLAIN, whole=False) == value


@given(documents, documents)
def test_equivalence_has_no_direction(one: Any, other: Any) -> None:
    assert equivalent(one, other, PLAIN) == equivalent(other, one, PLAIN)


def test_inputs_keep_the_programs_words_and_leave_out_what_it_does_not_say() -> None:
    wanted = {"httpTokens": "required", "hops": "1"}
    actual = {"httpTokens": "required", "hops": 1, "httpEndpoint": "enabled"}
    assert spelled_as(wanted, actual, PLAIN, whole=False) == wanted
    assert spelled_as(wanted, actual, PLAIN, whole=True) == {**wanted, "httpEndpoint": "enabled"}


def test_a_change_shows_where_it_is() -> None:
    wanted = {"minSize": 1, "desiredSize": 2}
    actual = {"minSize": 1, "desiredSize": 5, "maxSize": 9}
    assert spelled_as(wanted, actual, PLAIN, whole=False) == {"minSize": 1, "desiredSize": 5}


def test_elements_of_a_set_are_paired() -> None:
    wanted = [{"name": "a", "size": 1}, {"name": "b"}]
    actual = [{"name": "b", "size": 7}, {"name": "a", "size": 1, "more": True}]
    assert spelled_as(wanted, actual, PLAIN, whole=False) == wanted


def test_an_added_tag_is_drift_though_the_program_does_not_name_it() -> None:
    tags = Property("tags")
    assert spelled_as({"a": "b"}, {"a": "b", "c": "d"}, tags, whole=False) == {"a": "b", "c": "d"}
