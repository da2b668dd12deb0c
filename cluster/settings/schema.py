"""The schema of the stack file as a tree to walk: what a key's value is, and an example of it."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from cluster.settings.base import Form

Sections = list[type[BaseModel]]


@dataclass(frozen=True)
class Node:
    """A value's type, taken apart: the sections that it may be, or the entries of a mapping or a list."""

    sections: Sections = field(default_factory=list)
    key: Any = None
    """Type of a mapping's keys."""
    entry: Any = None
    """Type of a mapping's or a list's entries."""
    is_mapping: bool = False
    literals: tuple[Any, ...] = ()

    def section(self, value: Any) -> type[BaseModel] | None:
        """The section that `value` is, judged by its `kind` where there are several."""
        if not isinstance(value, Mapping) or len(self.sections) < 2:
            return self.sections[0] if self.sections and isinstance(value, Mapping) else None
        return next((one for one in self.sections if value.get("kind") in kinds(one)), None)


def node(annotation: Any) -> Node:
    """Take a type apart. Unions and Annotated are seen through, and None is ignored."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return Node(sections=[annotation])
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return node(arguments[0])
    if origin is dict:
        return Node(key=arguments[0], entry=arguments[1], is_mapping=True)
    if origin is tuple:
        return Node(entry=arguments[0])
    if origin is typing.Literal:
        return Node(literals=arguments)
    if origin in (typing.Union, types.UnionType):
        parts = [node(argument) for argument in arguments]
        sections = [section for part in parts for section in part.sections]
        return Node(sections=sections) if sections else parts[0]
    return Node()


def keys(section: type[BaseModel]) -> dict[str, FieldInfo]:
    """A section's keys as written in the file."""
    return {info.alias or name: info for name, info in section.model_fields.items()}


def kinds(section: type[BaseModel]) -> tuple[Any, ...]:
    """The value of `kind` by which a section is told from its alternatives."""
    info = section.model_fields.get("kind")
    return typing.get_args(info.annotation) if info else ()


def sections(annotation: Any) -> Sections:
    """Every section below a type, itself included."""
    this = node(annotation)
    found = list(this.sections)
    for section in this.sections:
        for info in section.model_fields.values():
            found += sections(info.annotation)
    return list(dict.fromkeys([*found, *(sections(this.entry) if this.entry else [])]))


def example(annotation: Any, metadata: typing.Iterable[Any] = (), examples: list[Any] | None = None) -> Any:
    """A valid value, as plain data. The tests validate that of every key."""
    if examples:
        return examples[0]
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *more = typing.get_args(annotation)
        given = next(
            (one.examples for one in reversed(more) if isinstance(one, FieldInfo) and one.examples), None
        )
        return example(inner, [*metadata, *more], given)
    for one in metadata:
        if isinstance(one, Form):
            return one.example.split(" or ")[0].split(", ")[0].strip('"')
    this = node(annotation)
    if this.sections:
        required = {key: info for key, info in keys(this.sections[0]).items() if info.is_required()}
        return {key: of(info) for key, info in required.items()}
    if this.is_mapping:
        return {example(this.key): example(this.entry)}
    if this.entry is not None:
        return [example(this.entry)]
    if this.literals:
        return this.literals[0]
    alternatives = [one for one in typing.get_args(annotation) if one is not type(None)]
    if alternatives:
        return example(alternatives[0], metadata)
    if annotation is int:
        return next((least for one in metadata if (least := getattr(one, "ge", None)) is not None), 1)
    return {bool: True, float: 0.05}.get(annotation, "text")


def of(info: FieldInfo) -> Any:
    """An example of a key's value."""
    return example(info.annotation, info.metadata, info.examples)


def written(value: Any) -> str:
    """A value as it's written on one line of the file."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
