"""The arguments of a component: read by name, and refused when nothing reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi


class Arguments:
    """A component's inputs, by pulumi-eks's camelCase names.

    `neutral` values are those that mean the same as leaving the argument out.
    """

    def __init__(self, component: str, inputs: Mapping[str, Any]) -> None:
        self._component = component
        self._inputs = {name: value for name, value in inputs.items() if value is not None}
        self._read: set[str] = set()
        self._errors: list[dict[str, str]] = []

    def take(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return self._inputs.get(name, default)

    def nested(self, name: str) -> Arguments:
        """The object at `name` (empty if it isn't given); its errors are reported with `finish`."""
        value = self.take(name) or {}
        if not isinstance(value, Mapping):
            self.refuse(name, "has to be a plain object here")
            value = {}
        inner = Arguments(self._component, value)
        inner._errors = _Prefixed(self._errors, name)
        return inner

    def neutral(self, name: str, *values: Any, reason: str = "isn't supported in the lab") -> None:
        """Accept the argument only when it changes nothing."""
        value = self.take(name)
        if value is not None and not any(value is each or value == each for each in values):
            self.refuse(name, reason)

    def require(self, name: str, value: Any, reason: str) -> None:
        """Accept the argument only with this value, which isn't its default."""
        if self.take(name) != value:
            self.refuse(name, reason)

    def refuse(self, name: str, reason: str) -> None:
        self._errors.append({"property_path": name, "reason": reason})

    def finish(self) -> None:
        """Refuse what nobody has read; raises InputPropertiesError with everything that is wrong."""
        self.leftovers()
        if self._errors:
            lines = "; ".join(f"{error['property_path']}: {error['reason']}" for error in self._errors)
            raise pulumi.InputPropertiesError(
                f"{self._component}: {lines}",
                [
                    {"property_path": error["property_path"], "reason": error["reason"]}
                    for error in self._errors
                ],
            )

    def leftovers(self) -> None:
        for name in sorted(set(self._inputs) - self._read):
            self.refuse(name, f"the lab's {self._component} doesn't support this argument")


class _Prefixed(list[dict[str, str]]):
    """Puts the outer property's name before the paths of inner errors."""

    def __init__(self, outer: list[dict[str, str]], name: str) -> None:
        super().__init__()
        self._outer, self._name = outer, name

    def append(self, error: dict[str, str]) -> None:
        self._outer.append({**error, "property_path": f"{self._name}.{error['property_path']}"})
