"""When two property values mean the same, and how to tell it in the program's own spelling.

AWS gives back what it was given in other words: sets in another order, "true" for true, a policy with its
keys sorted. None of that is a change, and a refresh must not report it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lab.providers.aws.table import Property
from lab.providers.aws.wire import has_unknown


def equivalent(one: Any, other: Any, prop: Property) -> bool:
    """Whether the two values of the property mean the same to AWS. An unknown equals nothing."""
    if has_unknown(one) or has_unknown(other):
        return False
    if prop.json and isinstance(one, str) and isinstance(other, str):
        return bool(_document(one) == _document(other))
    return _same(one, other, prop.ordered)


def _empty(value: Any) -> bool:
    return value is None or value is False or value in ("", "false", [], {})


def _same(one: Any, other: Any, ordered: bool) -> bool:
    if _empty(one) and _empty(other):
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(
            _same(one.get(key), other.get(key), ordered) for key in {*one, *other} if key != "__defaults"
        )
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return False
        if ordered:
            return all(_same(a, b, ordered) for a, b in zip(one, other, strict=True))
        rest = list(other)
        for item in one:
            position = next((i for i, candidate in enumerate(rest) if _same(item, candidate, ordered)), None)
            if position is None:
                return False
            del rest[position]
        return True
    return bool(_scalar(one) == _scalar(other))


def _scalar(value: Any) -> Any:
    """A form in which true and "true", 20 and "20", and two spellings of a moment are equal."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
        if len(value) >= 19 and value[4] == value[7] == "-":
            try:
                return datetime.fromisoformat(value).timestamp()
            except ValueError:
                pass
    return json.dumps(value, sort_keys=True) if isinstance(value, Mapping | list) else value


def _document(text: str) -> Any:
    try:
        return _canonical(json.loads(text))
    except ValueError:
        return text


def _canonical(value: Any) -> Any:
    """Policy documents: a list of one means its element, and lists of texts have no order."""
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        items = [_canonical(item) for item in value]
        if len(items) == 1:
            return items[0]
        return sorted(items, key=str) if all(isinstance(item, str) for item in items) else items
    return value


def spelled_as(wanted: Any, actual: Any, prop: Property, whole: bool) -> Any:
    """`actual` in the words of `wanted`, where they mean the same.

    With `whole` the rest of `actual` is kept (a state); without it only the keys that `wanted` has (inputs:
    what the program doesn't mention is no drift).
    """
    if wanted is not None and equivalent(wanted, actual, prop):
        return _merged(wanted, actual) if whole else wanted
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping) and not _is_free_map(prop):
        known = {
            key: spelled_as(item, actual.get(key), prop, whole)
            for key, item in wanted.items()
            if key in actual or _empty(item)
        }
        return {**actual, **known} if whole else known
    if isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        return [
            spelled_as(a, b, prop, whole) for a, b in zip(wanted, _matched(wanted, actual, prop), strict=True)
        ]
    return actual


def _is_free_map(prop: Property) -> bool:
    """Maps whose keys are the user's: every key counts, so an added one is drift."""
    return prop.name in ("tags", "tagsAll", "labels")


def _merged(wanted: Any, actual: Any) -> Any:
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        return {**actual, **{key: _merged(item, actual.get(key)) for key, item in wanted.items()}}
    return wanted


def _matched(wanted: list[Any], actual: list[Any], prop: Property) -> list[Any]:
    """`actual` in the order of `wanted` as far as elements can be paired, so that one element's
    change shows as that and not as a shuffle."""
    if prop.ordered:
        return actual
    rest = list(actual)
    result: list[Any] = [None] * len(wanted)
    for index, item in enumerate(wanted):
        position = next((i for i, candidate in enumerate(rest) if _covers(item, candidate)), None)
        if position is not None:
            result[index] = rest.pop(position)
    return [rest.pop(0) if item is None else item for item in result]


def _covers(wanted: Any, actual: Any) -> bool:
    """Whether `actual` has all that `wanted` asks for (it may have more)."""
    if isinstance(wanted, Mapping) and isinstance(actual, Mapping):
        return all(_covers(item, actual.get(key)) for key, item in wanted.items())
    if isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        return all(any(_covers(item, candidate) for candidate in actual) for item in wanted)
    return _same(wanted, actual, False)
