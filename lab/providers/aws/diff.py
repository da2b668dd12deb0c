"""Diff: what differs between two sets of inputs, and what a change of it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from lab.providers.aws.compare import equivalent
from lab.providers.aws.table import Property, Resource

Kind = Literal["ADD", "DELETE", "UPDATE"]


@dataclass
class Changes:
    """`details` maps a property path to (kind, whether it forces a replacement)."""

    properties: list[str] = field(default_factory=list)
    replaces: list[str] = field(default_factory=list)
    details: dict[str, tuple[Kind, bool]] = field(default_factory=dict)
    delete_before_replace: bool = False

    def replace_whole(self, reason: str) -> None:
        """Replace it whatever has changed; `reason` stands among the properties."""
        self.properties.append(reason)
        self.replaces.append(reason)
        self.details[reason] = ("UPDATE", True)
        self.delete_before_replace = True


def diff(resource: Resource, old: Mapping[str, Any], new: Mapping[str, Any]) -> Changes:
    """Compare revealed inputs; defaults stand in for what's left out on either side."""
    changes = Changes()
    for prop in resource.by_name.values():
        before, after = old.get(prop.name), new.get(prop.name)
        if prop.computed and after is None:
            continue
        before = prop.default if before is None else before
        after = prop.default if after is None else after
        if (before is None and after is None) or equivalent(before, after, prop):
            continue
        changes.properties.append(prop.name)
        if prop.replaces:
            changes.replaces.append(prop.name)
        for path, kind in _paths(prop.name, before, after, prop):
            changes.details[path] = (kind, prop.replaces)
    changes.delete_before_replace = bool(changes.replaces) and (
        resource.delete_before_replace or _keeps_its_name(resource, changes, new)
    )
    return changes


def _keeps_its_name(resource: Resource, changes: Changes, new: Mapping[str, Any]) -> bool:
    """Two can't have one name at the same time: a name the program chose, and didn't change, has to be
    free before the replacement is created."""
    rule = resource.autoname
    if rule is None or new.get(rule.property) is None:
        return False
    made_up = rule.property in (new.get("__defaults") or [])
    return not made_up and rule.property not in changes.properties


def _paths(path: str, before: Any, after: Any, prop: Property) -> Iterator[tuple[str, Kind]]:
    """The innermost places that differ."""
    if isinstance(before, Mapping) and isinstance(after, Mapping) and (before or after):
        for key in [*before, *(key for key in after if key not in before)]:
            if not equivalent(before.get(key), after.get(key), prop):
                inner = f"{path}.{key}" if re.fullmatch(r"[A-Za-z_$][\w$]*", key) else f'{path}["{key}"]'
                yield from _paths(inner, before.get(key), after.get(key), prop)
    elif isinstance(before, list) and isinstance(after, list) and before and after:
        for index in range(max(len(before), len(after))):
            a = before[index] if index < len(before) else None
            b = after[index] if index < len(after) else None
            if not equivalent(a, b, prop):
                yield from _paths(f"{path}[{index}]", a, b, prop)
    elif before is None:
        yield path, "ADD"
    elif after is None:
        yield path, "DELETE"
    else:
        yield path, "UPDATE"
