"""Between pulumi-aws's property values and the API's parameters, led by botocore's models.

Names: "cidrBlock" ↔ "CidrBlock", and "tags" ↔ "Tag"; differences beyond case and plural are given by the
table. Shapes: an object where the API has a list of one is wrapped (and the other way round), a map where
it has Key/Value pairs is spread, "true" or "20" becomes what the member takes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.model import Shape

from lab.providers.aws.wire import Unknown


@dataclass(frozen=True)
class Problem:
    """Something wrong with an input: where (pulumi's spelling) and what."""

    path: str
    reason: str


def fold(name: str) -> str:
    """A name without what differs between pulumi and the API: case and the plural."""
    name = name.lower().rstrip("s")
    return name[:-2] + "y" if name.endswith("ie") else name


def find(names: Any, wanted: str) -> str | None:
    """The one of `names` that `wanted` means: same but for case, or else but for the plural too."""
    for key in (str.lower, fold):
        for name in names:
            if key(name) == key(wanted):
                return str(name)
    return None


def member(shape: Shape, wanted: str) -> str | None:
    """The member of a structure that a property means."""
    return find(shape.members, wanted) if shape.type_name == "structure" else None


def pair_names(shape: Shape) -> tuple[str, str] | None:
    """The members of a list of pairs: Key and Value (tags), or Name and Value (dimensions)."""
    if shape.type_name == "list" and shape.member.type_name == "structure":
        for key in ("Key", "Name"):
            if set(shape.member.members) == {key, "Value"}:
                return key, "Value"
    return None


def to_api(shape: Shape, value: Any, names: Mapping[str, str], path: str, problems: list[Problem]) -> Any:
    """`value` as a parameter of that shape. Unknown keys are appended to `problems`; what can't be
    converted is left as it is, for botocore's validator to refuse."""
    if value is None or isinstance(value, Unknown):
        return value
    kind = shape.type_name
    if kind == "structure":
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not isinstance(value, Mapping) or getattr(shape, "is_document_type", False):
            return value
        return _to_structure(shape, value, names, path, problems)
    if kind == "list":
        pair = pair_names(shape)
        if isinstance(value, Mapping) and pair:
            return [{pair[0]: key, pair[1]: item} for key, item in value.items()]
        items = value if isinstance(value, list) else [value]
        return [
            to_api(shape.member, item, names, f"{path}[{index}]", problems)
            for index, item in enumerate(items)
            if item is not None
        ]
    if kind == "map":
        if not isinstance(value, Mapping):
            return value
        return {
            key: to_api(shape.value, item, names, f"{path}.{key}", problems) for key, item in value.items()
        }
    return _to_scalar(kind, value)


def _to_structure(
    shape: Shape, value: Mapping[str, Any], names: Mapping[str, str], path: str, problems: list[Problem]
) -> dict[str, Any]:
    result = {}
    for key, item in value.items():
        if item is None or key == "__defaults":
            continue
        name = member(shape, names.get(key, key))
        if name is None:
            known = ", ".join(sorted(lower_camel(each) for each in shape.members))
            problems.append(Problem(f"{path}.{key}", f"no such property; {path} has {known}"))
        else:
            result[name] = to_api(shape.members[name], item, names, f"{path}.{key}", problems)
    return result


def _to_scalar(kind: str, value: Any) -> Any:
    try:
        if kind in ("integer", "long") and not isinstance(value, bool):
            return int(value)
        if kind in ("float", "double") and not isinstance(value, bool):
            return float(value)
    except (TypeError, ValueError):
        return value
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    if kind == "string" and isinstance(value, bool):
        return str(value).lower()
    if kind == "string" and isinstance(value, int | float):
        return str(value)
    if kind == "blob" and isinstance(value, str):
        return value.encode()
    return value


def from_api(value: Any, names: Mapping[str, str] | None = None) -> Any:
    """An API value in pulumi's spelling. `names` maps API names to pulumi's where they differ."""
    names = names or {}
    if isinstance(value, Mapping):
        return {
            names.get(key, lower_camel(key)): from_api(item, names)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        if value and all(isinstance(item, Mapping) and set(item) == {"Key", "Value"} for item in value):
            return {item["Key"]: item["Value"] for item in value}
        return [from_api(item, names) for item in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def lower_camel(name: str) -> str:
    """ "VpcId" → "vpcId", "DNSName" → "dnsName", "ARN" → "arn"."""
    return re.sub(
        r"^[A-Z]+(?=[A-Z][a-z]|$)|^[A-Z]+(?=[^A-Za-z])|^[A-Z]", lambda match: match.group().lower(), name
    )
