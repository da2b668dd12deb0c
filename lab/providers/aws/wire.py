"""Property values as the engine sends them: protobuf Structs with markers for secrets and unknowns.

A `Secret` wraps a value that must stay encrypted in the state; `UNKNOWN` stands for a value that a
preview can't know yet. Everything else is plain JSON. Signatures: pulumi's sdk/go/common/resource/sig.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.struct_pb2 import ListValue, Struct, Value

_SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
_SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"
_UNKNOWN_SENTINEL = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


class Unknown:
    """The type of UNKNOWN, a singleton."""

    def __repr__(self) -> str:
        return "<unknown>"


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Secret:
    value: Any


def load(struct: Struct) -> dict[str, Any]:
    """A Struct as Python values; numbers without a fraction become int."""
    return {key: _load_value(value) for key, value in struct.fields.items()}


def _load_value(value: Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        loaded = load(value.struct_value)
        if loaded.get(_SIGNATURE_KEY) == _SECRET_SIGNATURE:
            return Secret(loaded.get("value"))
        return loaded
    if kind == "list_value":
        return [_load_value(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "string_value":
        return UNKNOWN if value.string_value == _UNKNOWN_SENTINEL else value.string_value
    if kind == "bool_value":
        return value.bool_value
    return None


def dump(values: Mapping[str, Any]) -> Struct:
    """The reverse of `load`; None values are left out, as the engine leaves out unset properties."""
    return Struct(fields={key: _dump_value(value) for key, value in values.items() if value is not None})


def _dump_value(value: Any) -> Value:
    if value is None:
        return Value(null_value=0)
    if isinstance(value, Secret):
        return Value(struct_value=dump({_SIGNATURE_KEY: _SECRET_SIGNATURE, "value": value.value}))
    if isinstance(value, Unknown):
        return Value(string_value=_UNKNOWN_SENTINEL)
    if isinstance(value, bool):
        return Value(bool_value=value)
    if isinstance(value, int | float):
        return Value(number_value=value)
    if isinstance(value, str):
        return Value(string_value=value)
    if isinstance(value, Mapping):
        return Value(struct_value=dump(value))
    if isinstance(value, list | tuple):
        return Value(list_value=ListValue(values=[_dump_value(item) for item in value]))
    raise TypeError(f"a {type(value).__name__} can't be a property value: {value!r}")


def reveal(value: Any) -> Any:
    """The value with every Secret opened, for calls to AWS and for comparisons."""
    if isinstance(value, Secret):
        return reveal(value.value)
    if isinstance(value, Mapping):
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    return value


def _contains(value: Any, test: Callable[[Any], bool]) -> bool:
    if test(value):
        return True
    if isinstance(value, Secret):
        return _contains(value.value, test)
    if isinstance(value, Mapping):
        return any(_contains(item, test) for item in value.values())
    if isinstance(value, list):
        return any(_contains(item, test) for item in value)
    return False


def has_unknown(value: Any) -> bool:
    return _contains(value, lambda item: isinstance(item, Unknown))


def has_secret(value: Any) -> bool:
    return _contains(value, lambda item: isinstance(item, Secret))


def secret_names(*values: Mapping[str, Any]) -> set[str]:
    """Names of the top-level properties that hold a secret somewhere."""
    return {name for mapping in values for name, value in mapping.items() if has_secret(value)}


def conceal(values: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """The values with the named properties wrapped as secrets."""
    return {
        name: Secret(value) if name in names and not isinstance(value, Secret) else value
        for name, value in values.items()
    }
