"""From what AWS describes to Pulumi's state, and to the inputs that would give it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.providers.aws import tagging
from lab.providers.aws.compare import equivalent, spelled_as
from lab.providers.aws.convert import find, from_api
from lab.providers.aws.operation import Operation, search
from lab.providers.aws.table import Property, Resource, Status

FAILED = "__failed"
"""Marks the state of a resource whose creation failed: the next update replaces it, as terraform does
with one that is tainted. There is no other way out of CREATE_FAILED."""


def state_of(operation: Operation, description: Mapping[str, Any]) -> dict[str, Any]:
    """All properties, as AWS has them, in the program's spelling where that means the same."""
    resource = operation.resource
    wanted = {**operation.state, **{k: v for k, v in operation.inputs.items() if v is not None}}
    names = resource.by_name
    state: dict[str, Any] = {}
    extra = dict(resource.extend(operation, description)) if resource.extend else {}
    for prop in [*names.values(), *resource.outputs]:
        if prop.local or prop.unread:
            value = wanted.get(prop.name, prop.default if prop.name in names else None)
        else:
            actual = extra[prop.name] if prop.name in extra else actual_value(prop, description)
            value = spelled_as(wanted.get(prop.name), actual, prop, whole=True)
        if value is not None:
            state[prop.name] = value
    if resource.regional:
        state["region"] = operation.region
    if resource.tags:
        operation.state = {**operation.state, **state}  # tags may be asked for by an output, such as the ARN
        tags_all = tagging.read(operation, description)
        state["tagsAll"] = tags_all
        state["tags"] = tagging.visible(
            tags_all, operation.value("tags") or {}, operation.cloud.settings.default_tags
        )
    state["id"] = operation.id
    if resource.status and _creation_failed(search(resource.status.path, description), resource.status):
        state[FAILED] = True
    return state


def _creation_failed(seen: object, status: Status) -> bool:
    return seen in status.failed and not str(seen).startswith(("UPDATE", "DELETE"))


def actual_value(prop: Property, description: Mapping[str, Any]) -> Any:
    """The property's value in the description, in pulumi's spelling."""
    if prop.read or "." in prop.api:
        value = search(prop.read or prop.api, description)
    else:
        name = find(description, prop.api or prop.name)
        value = description[name] if name else None
    if prop.single and isinstance(value, list):
        value = value[0] if value else None
    return from_api(value, {api: name for name, api in prop.names.items()})


def inputs_of(resource: Resource, old: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that would give this state: what the program sets, as it really is, and what it leaves
    out but differs from the default. With `old` empty (an import), everything that is set."""
    inputs: dict[str, Any] = {}
    for prop in resource.by_name.values():
        actual = state.get(prop.name)
        wanted = old.get(prop.name)
        if wanted is not None:
            if actual is not None:
                inputs[prop.name] = spelled_as(wanted, actual, prop, whole=False)
            elif equivalent(wanted, None, prop):
                inputs[prop.name] = wanted
        elif actual is not None and not equivalent(actual, prop.default, prop):
            importing = not old and not prop.local
            drifted = prop.default is not None and not prop.computed
            if importing or drifted:
                inputs[prop.name] = actual
    inputs["__defaults"] = old.get("__defaults", [])
    return inputs
