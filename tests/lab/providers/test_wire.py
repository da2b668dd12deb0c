"""Property values on the wire."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.providers.aws.wire import (
    UNKNOWN,
    Secret,
    conceal,
    dump,
    has_secret,
    has_unknown,
    load,
    reveal,
    secret_names,
)

known = st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5)
leaves = known | st.just(UNKNOWN) | known.map(Secret)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), values, max_size=4))
def test_what_is_dumped_comes_back(properties: dict[str, Any]) -> None:
    assert load(dump(properties)) == properties


def test_an_unset_property_is_left_out() -> None:
    assert load(dump({"a": None, "b": 1})) == {"b": 1}


def test_the_sdk_understands_it() -> None:
    from pulumi.runtime import rpc

    found = rpc.deserialize_properties(
        dump({"a": Secret("x"), "b": UNKNOWN, "c": [1, {"d": True}]}), keep_unknowns=True
    )
    assert rpc.is_rpc_secret(found["a"])
    assert rpc.unwrap_rpc_secret(found["a"]) == "x"
    assert found["c"] == [1, {"d": True}]
    assert found["b"] is rpc.UNKNOWN or type(found["b"]).__name__ == "Unknown"


def test_secrets_are_found_opened_and_closed() -> None:
    properties = {"plain": 1, "deep": {"list": [Secret({"a": UNKNOWN})]}}
    assert has_secret(properties) and has_unknown(properties)
    assert secret_names(properties) == {"deep"}
    assert reveal(properties) == {"plain": 1, "deep": {"list": [{"a": UNKNOWN}]}}
    assert conceal({"plain": 1, "deep": 2}, {"deep"}) == {"plain": 1, "deep": Secret(2)}
    assert conceal({"deep": Secret(2)}, {"deep"}) == {"deep": Secret(2)}


def test_a_value_that_json_has_no_word_for_is_refused() -> None:
    with pytest.raises(TypeError, match="can't be a property value"):
        dump({"a": object()})
