"""One create, read, update or delete under way: what the table's calls and functions work with."""

from __future__ import annotations

import random
import string
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import jmespath  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError, ClientError
from botocore.model import Shape

from lab.providers.aws.cloud import Cloud, model
from lab.providers.aws.convert import Problem, member, to_api
from lab.providers.aws.table import Call, Property, Resource

T = TypeVar("T")


class Failed(Exception):
    """The operation can't be done; the message is for the person at the terminal."""


class Stopped(Failed):
    """The engine asked to stop (Cancel), or the time is over."""


AWS_ERRORS = (ClientError, BotoCoreError)
"""An answer that is an error, and no answer."""


def error_code(error: Exception) -> str:
    """AWS's code; empty for errors that aren't answers of AWS."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def error_text(error: Exception) -> str:
    if not isinstance(error, ClientError):
        return str(error)
    return (
        f"{error.operation_name}: {error_code(error)}: {error.response.get('Error', {}).get('Message', '')}"
    )


@dataclass
class Operation:
    """`inputs` are the wanted properties and `state` the ones in Pulumi's state, both without
    secrets' wrappers; `changed` are the names that differ (all that are set, for a create)."""

    cloud: Cloud
    resource: Resource
    id: str = ""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()
    created: Mapping[str, Any] = field(default_factory=dict)
    """The create call's response."""
    deadline: float = float("inf")
    cancelled: threading.Event = field(default_factory=threading.Event)
    progress: Callable[[str], None] = lambda message: None

    # Values

    def value(self, name: str) -> Any:
        """The property as it should be, else as it is, else as the id says, else its default. One that
        the program has just dropped is not as it is, but at its default."""
        sources = [self.inputs] if name in self.changed else [self.inputs, self.state, self.id_fields()]
        for source in sources:
            if source.get(name) is not None:
                return source[name]
        prop = self.resource.by_name.get(name)
        return prop.default if prop else None

    def id_fields(self) -> dict[str, str]:
        """The properties that a composite id consists of."""
        names = [name for _, name, _, _ in string.Formatter().parse(self.resource.id) if name]
        if "{" not in self.resource.id or not self.id:
            return {}
        separator = self.resource.id[self.resource.id.index("}") + 1 : self.resource.id.index("}") + 2]
        parts = self.id.split(separator, len(names) - 1) if separator else [self.id]
        if len(parts) != len(names):
            raise Failed(
                f"{self.id!r} isn't an id of {self.resource.token}: it looks like {self.resource.id}"
            )
        return dict(zip(names, parts, strict=True))

    @property
    def region(self) -> str:
        return str(self.value("region") or self.cloud.settings.region)

    def arn(self, service: str, rest: str, region: bool = True) -> str:
        """An ARN in this account, for types whose description has none."""
        place = self.region if region else ""
        return f"arn:{self.cloud.partition}:{service}:{place}:{self.cloud.account}:{rest}"

    def fill(self, template: Any) -> Any:
        """A Call's parameters with "{property}" replaced; what's unset is left out."""
        if isinstance(template, Mapping):
            filled = {key: self.fill(item) for key, item in template.items()}
            return {key: item for key, item in filled.items() if item is not None}
        if isinstance(template, list):
            return [self.fill(item) for item in template]
        if isinstance(template, str) and template.startswith("{") and template.endswith("}"):
            name = template[1:-1]
            return self.id if name == "id" else self.value(name)
        return template

    # Calls

    def client(self) -> Any:
        return self.cloud.client(self.resource.service, self.region)

    def call(self, operation: str, /, **parameters: Any) -> Mapping[str, Any]:
        """The operation by its name in the API reference; raises botocore's ClientError."""
        client = self.client()
        method = client.meta.method_to_api_mapping
        name = next(python for python, api in method.items() if api == operation)
        result: Mapping[str, Any] = getattr(client, name)(**parameters)
        return result

    def parameters(self, call: Call, properties: Iterable[Property]) -> dict[str, Any]:
        """The call's own parameters and those of the properties, where the operation takes them."""
        shape = model(self.resource.service).operation_model(call.operation).input_shape
        result: dict[str, Any] = {}
        for prop in properties:
            value = self.value(prop.name) if prop.name in self.changed else self.inputs.get(prop.name)
            if value is None or prop.local:
                continue
            target = locate(shape, prop, call.inside)
            if target is not None:
                path, leaf = target
                place(result, path, to_api(leaf, value, prop.names, prop.name, []))
        merge(result, self.fill(call.parameters))
        if call.more:
            merge(result, call.more(self))
        return result

    def run(self, call: Call, properties: Iterable[Property] = ()) -> Mapping[str, Any]:
        return self.call(call.operation, **self.parameters(call, properties))

    # Patience

    def sleep(self, seconds: float) -> None:
        """Raises Stopped when the engine cancels or the deadline would pass."""
        if time.monotonic() + seconds > self.deadline:
            raise Stopped("it took longer than it may (see the customTimeouts option)")
        if self.cancelled.wait(seconds):
            raise Stopped("cancelled")

    def retry(self, action: Callable[[], T], worth: Callable[[ClientError], bool], patience: float) -> T:
        """Repeat while the error is `worth` it, for at most `patience` seconds."""
        end = time.monotonic() + patience
        pause = 0.3
        while True:
            try:
                return action()
            except ClientError as error:
                if not worth(error) or time.monotonic() > end:
                    raise
                self.progress(f"waiting: {error_text(error)}")
            self.sleep(pause * random.uniform(0.8, 1.2))
            pause = min(pause * 1.5, 5.0)

    def poll(self, look: Callable[[], T | None], what: str) -> T:
        """Call `look` until it gives something other than None."""
        started = time.monotonic()
        pause = 0.2
        while True:
            found = look()
            if found is not None:
                return found
            self.sleep(pause)
            pause = min(pause * 1.4, 3.0)
            if time.monotonic() - started > 5:
                self.progress(f"{what} ({time.monotonic() - started:.0f} s)")


def locate(shape: Shape, prop: Property, inside: str = "") -> tuple[list[str], Shape] | None:
    """Where in an operation's input a property goes and of which shape it is there, or None."""
    names = prop.api.split(".") if prop.api else [prop.name]
    for start in [[inside], []] if inside else [[]]:
        path: list[str] = []
        current: Shape | None = shape
        for name in [*start, *names]:
            found = member(current, name) if current is not None else None
            if found is None or current is None:
                current = None
                break
            path.append(found)
            current = current.members[found]
        if current is not None:
            return path, current
    return None


def place(parameters: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        parameters = parameters.setdefault(name, {})
    parameters[path[-1]] = value


def merge(target: dict[str, Any], extra: Mapping[str, Any]) -> None:
    """Deep: structures are joined, everything else replaced."""
    for key, value in extra.items():
        if isinstance(value, Mapping) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = value


def search(path: str, value: Any) -> Any:
    return jmespath.search(path, value)


__all__ = ["Failed", "Operation", "Problem", "Stopped", "error_code", "error_text", "locate", "search"]
