"""Are inputs such that AWS would take them? botocore's models know types, required members and values."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.model import Shape
from botocore.validate import ParamValidator

from lab.providers.aws.cloud import model
from lab.providers.aws.convert import Problem, fold, lower_camel, to_api
from lab.providers.aws.operation import locate
from lab.providers.aws.table import Call, Property, Resource
from lab.providers.aws.wire import UNKNOWN, Unknown

_MOST_ENUM_VALUES = 30
"""Longer enumerations (instance types) grow with AWS: botocore's list is not the whole truth."""


def problems(resource: Resource, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with revealed inputs; unknown values are taken to be right."""
    known = resource.by_name
    for name in inputs:
        if name not in known and name not in ("__defaults",):
            yield Problem(name, _no_such(resource, name))
    if resource.check:
        for name, reason in resource.check(inputs):
            yield Problem(name, reason)
    for prop in known.values():
        value = inputs.get(prop.name)
        if value is not None and not prop.local:
            yield from _wrong(resource, prop, value)


def _no_such(resource: Resource, name: str) -> str:
    close = difflib.get_close_matches(name, resource.by_name, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return (
        f"the lab's AWS plugin doesn't know this property of {resource.token}{hint} "
        f"(its entry in lab/providers/aws/resources lists what it knows)"
    )


def _wrong(resource: Resource, prop: Property, value: Any) -> Iterator[Problem]:
    """Conversion and botocore's own validation of one input, on the first call that takes it."""
    for call in _calls(resource, prop):
        shape = model(resource.service).operation_model(call.operation).input_shape
        target = locate(shape, prop, call.inside)
        if target is None:
            continue
        leaf = target[1]
        found: list[Problem] = []
        converted = to_api(leaf, value, prop.names, prop.name, found)
        yield from found
        if not found:
            yield from _validate(leaf, converted, prop)
        return


def _calls(resource: Resource, prop: Property) -> Iterator[Call]:
    if isinstance(resource.create, Call):
        yield resource.create
    elif resource.checked_by:
        yield Call(resource.checked_by)
    for step in resource.steps:
        if prop.name in step.properties and isinstance(step.action, Call):
            yield step.action


def _validate(shape: Shape, value: Any, prop: Property) -> Iterator[Problem]:
    report = ParamValidator().validate(_stand_in(shape, value), shape)
    for kind, where, details in report._errors:
        path = _path(where, prop)
        if kind == "missing required field":
            yield Problem(f"{path}.{lower_camel(details['required_name'])}", "is required")
        elif kind == "invalid type":
            accepted = " or ".join(
                sorted({name.strip("<>'").split("'")[-1] for name in details["valid_types"]})
            )
            yield Problem(path, f"is {details['param']!r}, which isn't of type {accepted}")
        elif kind == "invalid range":
            yield Problem(path, f"is {details['param']!r}, less than {details['min_allowed']}")
        elif kind == "invalid length":
            yield Problem(path, f"is {details['param']!r}, shorter than {details['min_allowed']}")
        else:
            yield Problem(path, f"{kind}: {details}")
    yield from _enumerations(shape, value, prop.name)


def _stand_in(shape: Shape, value: Any) -> Any:
    """The value with something valid in place of what isn't known yet."""
    if isinstance(value, Unknown):
        kind = shape.type_name
        if kind == "structure":
            return {name: _stand_in(shape.members[name], UNKNOWN) for name in shape.required_members}
        if kind == "list":
            return [_stand_in(shape.member, UNKNOWN)] * shape.metadata.get("min", 0)
        if kind == "map":
            return {}
        if kind in ("integer", "long", "float", "double"):
            return shape.metadata.get("min", 1)
        if kind == "boolean":
            return True
        if kind == "timestamp":
            return "2000-01-01T00:00:00Z"
        if kind == "blob":
            return b"x"
        return "x" * max(1, shape.metadata.get("min", 1))
    if shape.type_name == "structure" and isinstance(value, Mapping):
        return {
            name: _stand_in(shape.members[name], item) if name in shape.members else item
            for name, item in value.items()
        }
    if shape.type_name == "list" and isinstance(value, list):
        return [_stand_in(shape.member, item) for item in value]
    if shape.type_name == "map" and isinstance(value, Mapping):
        return {key: _stand_in(shape.value, item) for key, item in value.items()}
    return value


def _path(where: str, prop: Property) -> str:
    """botocore's ".SubnetIds[0]", below the property's value, in pulumi's spelling: "vpcConfig.subnetIds[0]"."""
    names = {fold(api): name for name, api in prop.names.items()}
    parts = where.split(".")
    renamed = [parts[0], *(names.get(fold(part), lower_camel(part)) for part in parts[1:])]
    return prop.name + ".".join(renamed)


def _enumerations(shape: Shape, value: Any, path: str) -> Iterator[Problem]:
    """botocore's validator doesn't look at enumerations; a misspelt value should fail before AWS sees it."""
    if shape.type_name == "structure" and isinstance(value, Mapping):
        for name, item in value.items():
            if name in shape.members:
                yield from _enumerations(shape.members[name], item, f"{path}.{lower_camel(name)}")
    elif shape.type_name == "list" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _enumerations(shape.member, item, f"{path}[{index}]")
    elif shape.type_name == "string" and isinstance(value, str):
        allowed = getattr(shape, "enum", [])
        if allowed and len(allowed) <= _MOST_ENUM_VALUES and value not in allowed:
            yield Problem(path, f"is {value!r}; it can be {', '.join(allowed)}")
