"""What the installed pulumi_aws says of a resource: read from its classes, since it ships no schema."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pulumi._types import (
    input_type_py_to_pulumi_names,
    input_type_types,
    is_input_type,
    resource_types,
    unwrap_optional_type,
)

SIMPLE = {str: "String", bool: "Bool", int: "Int", float: "Float"}


@dataclass(frozen=True)
class Property:
    """`type` is String, Bool, Int, Float, List, Map or Object."""

    type: str
    required: bool = False
    default: Any = None
    secret: bool = False
    documented_as_replacing: bool = False
    nested: Mapping[str, Property] = field(default_factory=dict)


def resource_class(token: str) -> Any:
    """`aws:ec2/vpc:Vpc` → pulumi_aws.ec2.Vpc. Raises AttributeError if pulumi_aws has no such type."""
    module, name = token.split("/")[0].removeprefix("aws:"), token.rpartition(":")[2]
    found = getattr(importlib.import_module(f"pulumi_aws.{module}"), name)
    assert found.pulumi_type == token
    return found


def inputs(token: str) -> dict[str, Property]:
    """Every input by its Pulumi name, nested ones too."""
    resource = resource_class(token)
    module = importlib.import_module(resource.__module__)
    secrets = _secret_outputs(resource)
    # ….InitArgs where ….Args is the name of an object among the inputs
    names = (f"{resource.__name__}InitArgs", f"{resource.__name__}Args")
    found = _properties(next(getattr(module, name) for name in names if hasattr(module, name)))
    return {name: _with(item, secret=name in secrets) for name, item in found.items()}


def outputs(token: str) -> set[str]:
    return set(resource_types(resource_class(token)))


def _with(item: Property, **changes: Any) -> Property:
    return Property(**{**item.__dict__, **changes})


def _secret_outputs(resource: Any) -> set[str]:
    source = inspect.getsource(resource._internal_init)
    listed = re.search(r"additional_secret_outputs=(\[.*?\])", source)
    return set(ast.literal_eval(listed[1])) if listed else set()


def _properties(arguments: Any) -> dict[str, Property]:
    """The properties of an Args class."""
    defaults, required, replacing = _of_constructor(arguments)
    found = {}
    for name, kind in input_type_types(arguments).items():
        type_, nested = _kind(kind)
        python = _python_name(arguments, name)
        found[name] = Property(
            type_,
            required=python in required,
            default=defaults.get(python),
            documented_as_replacing=python in replacing,
            nested=nested,
        )
    return found


def _python_name(arguments: Any, name: str) -> str:
    return next(
        python for python, pulumi in input_type_py_to_pulumi_names(arguments).items() if pulumi == name
    )


REPLACING = re.compile(
    r"[Ff]orces? (?:a )?(?:new|replacement|re-?creat)|[Cc]hang\w+ (?:this|it|the \w+) .*forc", re.DOTALL
)


def _of_constructor(arguments: Any) -> tuple[dict[str, Any], set[str], set[str]]:
    """Defaults, required parameters and those that the documentation says replace the resource, by Python's names."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(arguments.__init__)))
    defaults = {}
    for node in ast.walk(tree):
        match node:
            case ast.If(
                test=ast.Compare(left=ast.Name(id=name), ops=[ast.Is()]),
                body=[ast.Assign(targets=[ast.Name(id=same)], value=ast.Constant(value=value))],
            ) if name == same:
                defaults[name] = value
    parameters = list(inspect.signature(arguments.__init__).parameters.values())[1:]
    required = {each.name for each in parameters if each.default is inspect.Parameter.empty}
    documented = re.split(r":param (?:[^:\n]|\](?=:))*? (\w+): ", arguments.__init__.__doc__ or "")[1:]
    texts = dict(zip(documented[::2], documented[1::2], strict=True))
    return defaults, required, {name for name, text in texts.items() if REPLACING.search(text)}


def _kind(annotation: Any) -> tuple[str, dict[str, Property]]:
    """The kind of an annotation and, for objects and lists of them, their properties."""
    annotation = unwrap_optional_type(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        annotation = str
    if annotation in SIMPLE:
        return SIMPLE[annotation], {}
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        classes = [part for part in parts if isinstance(part, type)]
        for part in classes:
            if part in SIMPLE:  # first: a policy is a text, or an object that becomes one
                return SIMPLE[part], {}
        for part in classes:
            if is_input_type(part):
                return "Object", _properties(part)
        return _kind(next(part for part in parts if typing.get_origin(part) in _CONTAINERS))
    if isinstance(annotation, type) and is_input_type(annotation):
        return "Object", _properties(annotation)
    if origin in _SEQUENCES:
        return "List", _kind(parts[0])[1] if parts else {}
    if origin in _MAPPINGS:
        return "Map", {}
    raise AssertionError(f"a kind of annotation that isn't known here: {annotation}")


_SEQUENCES = (list, Sequence, typing.Sequence)
_MAPPINGS = (dict, Mapping, typing.Mapping)
_CONTAINERS = (*_SEQUENCES, *_MAPPINGS)
