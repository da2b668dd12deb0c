"""Create, read, update and delete of any table entry."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from lab.providers.aws import tagging
from lab.providers.aws.cloud import model
from lab.providers.aws.compare import equivalent
from lab.providers.aws.operation import (
    AWS_ERRORS,
    Failed,
    Operation,
    Stopped,
    error_code,
    error_text,
    locate,
    search,
)
from lab.providers.aws.state import state_of
from lab.providers.aws.table import Call, Property, Resource, Step

_BUSY_PATIENCE = 300.0
"""Seconds for which a change or a delete is tried again while something else is in the way."""
_EVENTUAL_PATIENCE = 120.0
"""IAM is eventually consistent; terraform-provider-aws waits two minutes for it, too."""


class Unfinished(Exception):
    """It exists, but isn't as wanted: the state keeps it, with the reasons."""

    def __init__(self, id: str, state: Mapping[str, Any], reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.id = id
        self.state = dict(state)
        self.reasons = reasons


# Create


def create(operation: Operation) -> dict[str, Any]:
    """Make it, wait until it's ready, and return its state; sets `operation.id`.

    Raises Failed if there is nothing, Unfinished if something exists that isn't right.
    """
    resource = operation.resource
    _limit(operation)
    try:
        operation.id = operation.retry(
            lambda: _make(operation), lambda error: _eventual(resource, error), _EVENTUAL_PATIENCE
        )
    except AWS_ERRORS as error:
        if operation.id:  # it was made, and then something about it went wrong
            raise _unfinished(operation, error) from error
        raise Failed(error_text(error)) from error
    try:
        _apply(operation, [step for step in resource.steps if _runs_after_create(step, operation)])
        if resource.tags and operation.value("tagsAll") and not _tagged_by_create(resource):
            tagging.change(operation, {}, operation.value("tagsAll"))
        description = settle(operation)
    except (*AWS_ERRORS, Failed) as error:
        raise _unfinished(operation, error) from error
    return state_of(operation, description)


def _make(operation: Operation) -> str:
    resource = operation.resource
    if not isinstance(resource.create, Call):
        return resource.create(operation)
    parameters = operation.parameters(resource.create, resource.inputs)
    if resource.tags:
        parameters.update(
            tagging.creation_parameters(
                resource.tags, resource.create.operation, resource.service, operation.value("tagsAll") or {}
            )
        )
    operation.created = operation.call(resource.create.operation, **parameters)
    if "{" in resource.id:
        return resource.id.format(**{prop.name: operation.value(prop.name) for prop in resource.inputs})
    return str(search(resource.id, operation.created))


def _eventual(resource: Resource, error: ClientError) -> bool:
    return any(part in error_text(error) for part in resource.eventual)


def _tagged_by_create(resource: Resource) -> bool:
    if resource.tags is None or not resource.tags.on_create:
        return False
    if not isinstance(resource.create, Call):
        return True
    call = resource.create.operation
    return bool(tagging.creation_parameters(resource.tags, call, resource.service, {"a": "b"}))


def sent_by_create(resource: Resource, prop: Property) -> bool:
    """Whether the create call takes this input."""
    if not isinstance(resource.create, Call):
        return True
    shape = model(resource.service).operation_model(resource.create.operation).input_shape
    return locate(shape, prop, resource.create.inside) is not None


def _runs_after_create(step: Step, operation: Operation) -> bool:
    resource = operation.resource
    if not step.on_create:
        return False
    for name in step.properties:
        prop = resource.by_name[name]
        value = operation.inputs.get(name)
        later = not sent_by_create(resource, prop) or prop.local
        if later and value is not None and not equivalent(value, prop.default, prop):
            return True
    return False


def _limit(operation: Operation) -> None:
    """The type's own limit, unless the program set one (customTimeouts)."""
    if operation.deadline == float("inf"):
        status = operation.resource.status
        operation.deadline = time.monotonic() + 60 * (status.minutes if status else 10)


# Read


def describe(operation: Operation) -> Mapping[str, Any] | None:
    """What AWS says about it, or None if it doesn't exist (any more)."""
    resource = operation.resource
    try:
        if isinstance(resource.read, Call):
            found = search(resource.read.result or "@", operation.run(resource.read))
        else:
            found = resource.read(operation)
    except ClientError as error:
        if error_code(error) in resource.missing:
            return None
        raise
    if found and resource.status and search(resource.status.path, found) in resource.status.gone:
        return None
    return found or None


def settle(operation: Operation) -> Mapping[str, Any]:
    """Wait until the status is a good one, and return the description. Raises Failed on a bad one."""
    status = operation.resource.status
    seen = ""

    def look() -> Mapping[str, Any] | None:
        nonlocal seen
        description = describe(operation)
        if description is None:
            # Fresh resources may not be visible for a moment.
            return None
        if status is None:
            return description
        seen = str(search(status.path, description))
        if seen in status.failed:
            reasons = list(status.reason(description)) if status.reason else []
            raise Failed("; ".join([f"{operation.id} is {seen}", *reasons]))
        return description if seen in status.ready else None

    return operation.poll(look, "waiting until it's ready")


# Update


def update(operation: Operation) -> dict[str, Any]:
    """Bring it from `state` to `inputs`. Raises Unfinished if it exists but isn't right."""
    resource = operation.resource
    _limit(operation)
    try:
        _apply(operation, [step for step in resource.steps if operation.changed & set(step.properties)])
        if resource.tags and operation.changed & {"tags", "tagsAll"}:
            tagging.change(
                operation, operation.state.get("tagsAll") or {}, operation.inputs.get("tagsAll") or {}
            )
        description = settle(operation)
    except (*AWS_ERRORS, Failed) as error:
        raise _unfinished(operation, error) from error
    return state_of(operation, description)


def _apply(operation: Operation, steps: Iterable[Step]) -> None:
    resource = operation.resource
    for number, step in enumerate(steps):
        if resource.status and (number or operation.created):
            settle(operation)  # one change at a time
        act = step.action
        if isinstance(act, Call):
            properties = [resource.by_name[name] for name in step.properties]
            operation.retry(
                lambda act=act, properties=properties: operation.run(act, properties),  # type: ignore[misc]
                lambda error: error_code(error) in resource.busy,
                _BUSY_PATIENCE,
            )
        else:
            act(operation)


def _unfinished(operation: Operation, error: Exception) -> Exception:
    """The error to report for a resource that may exist: with its state if it does."""
    reason = error_text(error)
    wanted = {**operation.state, **operation.inputs}
    state = {name: value for name, value in wanted.items() if name != "__defaults"}
    try:
        description = describe(operation)
        if description is None and not isinstance(error, Stopped):
            return Failed(reason)
        if description is not None:
            state = state_of(operation, description)
    except (*AWS_ERRORS, Failed):
        pass  # the first error is the one that matters
    return Unfinished(operation.id, {**state, "id": operation.id}, [reason])


# Delete


def delete(operation: Operation) -> None:
    """Delete it and wait until it's gone; one that is gone already is fine. Raises Failed."""
    resource = operation.resource
    _limit(operation)
    if resource.delete is None:
        return
    act = resource.delete
    try:
        operation.retry(
            lambda: operation.run(act) if isinstance(act, Call) else act(operation),
            lambda error: error_code(error) in resource.busy,
            operation.deadline - time.monotonic(),
        )
        if resource.status or resource.delete_waits:
            operation.poll(lambda: _absent(operation), "waiting until it's gone")
    except AWS_ERRORS as error:
        if error_code(error) not in resource.missing:
            raise Failed(error_text(error)) from error


def _absent(operation: Operation) -> bool | None:
    description = describe(operation)
    if description is None:
        return True
    status = operation.resource.status
    if status:
        seen = str(search(status.path, description))
        if seen in status.failed and "DELET" in seen.upper():
            reasons = list(status.reason(description)) if status.reason else []
            raise Failed("; ".join([f"{operation.id} is {seen}", *reasons]))
    return None
