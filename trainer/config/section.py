"""What all sections of a job file are made of.

A section's values are checked by their types, and its values against each other by methods marked with `check`. These
run also where some values are wrong, on an instance that lacks them: whatever doesn't need those is still found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError

Positive = Annotated[int, Field(gt=0, strict=True)]
Count = Annotated[int, Field(ge=0, strict=True)]
Seconds = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]

CONTRADICTION = "contradiction"
"""The type of an error that a check found, by pydantic's way of telling errors apart."""

Check = Callable[[Any], Iterator[str]]


def check(method: Check) -> Check:
    """Mark a section's method that yields what is wrong between its values, a sentence each. Reading a value that is
    itself wrong ends it: one method for each thing that can be known alone."""
    method.is_check = True  # type: ignore[attr-defined]
    return method


class Section(BaseModel):
    """A part of the job file: frozen, and closed to keys that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if problems := [sentence for method in self.checks() for sentence in method(self)]:
            raise PydanticCustomError(CONTRADICTION, "{problems}", {"problems": "; ".join(problems)})
        return self

    @classmethod
    def checks(cls) -> list[Check]:
        """The methods marked with `check`."""
        return [method for method in vars(cls).values() if hasattr(method, "is_check")]


def contradictions(section: Section, path: str = "") -> Iterator[tuple[str, str]]:
    """What checks find in a section, which may lack values, and in those below: the section's path, and a sentence."""
    for name, field in type(section).model_fields.items():
        below = getattr(section, name, None)
        if isinstance(below, Section):
            yield from contradictions(below, f"{path}.{field.alias or name}".lstrip("."))
    for method in type(section).checks():
        try:
            for sentence in method(section):
                yield path, sentence
        except AttributeError:  # it asks for a value that is lacking
            continue


def known(section: type[Section], given: dict[str, Any]) -> Section:
    """A section with the values that are valid each for itself; it lacks the others, and nothing is checked."""
    instance = section.model_construct()
    values = vars(instance)  # so far the defaults
    for name, field in section.model_fields.items():
        key = field.alias or name
        if key not in given:
            continue
        below = _section_of(field.annotation)
        if below is not None and isinstance(given[key], dict):
            values[name] = known(below, given[key])
            continue
        kind: Any = Annotated[field.annotation, field]
        try:
            values[name] = TypeAdapter(kind).validate_python(given[key])
        except ValidationError:
            values.pop(name, None)
    return instance


def _section_of(annotation: Any) -> type[Section] | None:
    """The section that a value may be: `Profile` of `Profile | None`."""
    kinds = [annotation] if get_origin(annotation) is tuple else [annotation, *get_args(annotation)]
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section)), None)
