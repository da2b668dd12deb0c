"""Validate a part of the stack file, and put pydantic's errors into the words of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from cluster.settings import schema, words
from cluster.settings.problems import Problem

MISSING = object()


def validate(annotation: Any, value: Any, path: str, problems: list[Problem], metadata: Any = ()) -> Any:
    """The valid value, or MISSING with what is wrong added to `problems`.

    Unknown keys are reported first and left out, so that they hide nothing else.
    """
    known = without_unknown_keys(annotation, value, path, problems)
    whole: Any = Annotated[annotation, *metadata] if metadata else annotation
    adapter: TypeAdapter[Any] = TypeAdapter(whole)
    try:
        # Through JSON, where a list is a tuple and a text is a time, but "1" is still no number.
        return adapter.validate_json(json.dumps(known), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            problems.append(_translate(annotation, metadata, known, detail, path))
        return MISSING


def without_unknown_keys(annotation: Any, value: Any, path: str, problems: list[Problem]) -> Any:
    """A copy of `value` with the keys that the schema knows. What is only spelt in another way is read as meant."""
    this = schema.node(annotation)
    if isinstance(value, list) and this.entry is not None and not this.is_mapping:
        return [
            without_unknown_keys(this.entry, entry, f"{path}[{number}]", problems)
            for number, entry in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        return value
    if this.is_mapping:
        return {
            key: without_unknown_keys(this.entry, entry, join(path, key), problems)
            for key, entry in value.items()
        }
    section = this.section(value)
    if section is None:
        return value
    known = schema.keys(section)
    result: dict[str, Any] = {}
    for given, entry in value.items():
        key = given
        if given not in known:
            advice = words.advice(section.__name__, given, list(known))
            problems.append(Problem(join(path, given), "is not a known key", advice))
            meant = words.renamed(section.__name__, given) or words.same(given, known)
            if meant is None or meant in value:
                continue
            key = meant
        result[key] = without_unknown_keys(known[key].annotation, entry, join(path, given), problems)
    return result


def join(path: str, key: str) -> str:
    return f"{path}{key}" if path.endswith(":") else f"{path}.{key}"


def _translate(annotation: Any, metadata: Any, value: Any, detail: ErrorDetails, path: str) -> Problem:
    """Follow the error's location, which holds more than the file does: names of a union's branches."""
    info: FieldInfo | None = None
    for part in detail["loc"]:
        this = schema.node(annotation)
        if isinstance(part, int):
            path, annotation, info = f"{path}[{part}]", this.entry, None
            value = value[part] if isinstance(value, list) and part < len(value) else None
            continue
        section = this.section(value)
        if section is not None and part in schema.keys(section):
            info = schema.keys(section)[part]
            path, annotation = join(path, part), info.annotation
        elif this.is_mapping and isinstance(value, Mapping) and part in value:
            path, annotation, info = join(path, part), this.entry, None
        elif part == "[key]":
            break
        else:
            continue
        value = value.get(part) if isinstance(value, Mapping) else None
    context = detail.get("ctx", {})
    if detail["type"] == "invalid":
        where = join(path, context["key"]) if context["key"] else path
        return Problem(where, context["what"], context["todo"])
    sample = schema.of(info) if info else schema.example(annotation, metadata)
    return Problem(path, *_words(detail, context, schema.written(sample), schema.node(annotation)))


def _words(
    detail: ErrorDetails, context: Mapping[str, Any], sample: str, this: schema.Node
) -> tuple[str, str]:
    """What is wrong and what to do, for each of pydantic's errors that the schema can cause."""
    kind, given = detail["type"], detail["input"]
    such = f"Such as {sample}."
    shown = _shown(given)
    match kind:
        case "missing":
            return "is missing", such
        case "literal_error":
            return _none_of(given, this.literals)
        case "union_tag_invalid":
            return _none_of(context["tag"], _all_kinds(this.sections))
        case "union_tag_not_found":
            return "has no kind", f"Kinds: {', '.join(map(str, _all_kinds(this.sections)))}. {such}"
        case "string_type":
            quote = isinstance(given, bool | int | float)
            return f"{shown} is not text", f'Write it in quotes: "{json.dumps(given)}".' if quote else such
        case "int_type" | "int_from_float" | "int_parsing":
            return f"{shown} is not an integer", such
        case "float_type" | "float_parsing" | "finite_number":
            return f"{shown} is not a number", such
        case "bool_type" | "bool_parsing":
            return f"{shown} is neither true nor false", "Write true or false."
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"{shown} is not a mapping", such
        case "tuple_type":
            return f"{shown} is not a list", such
        case "too_short":
            return f"{context['actual_length']} entries, at least {context['min_length']} are needed", such
        case "too_long":
            return f"{context['actual_length']} entries, at most {context['max_length']} are possible", such
        case "greater_than_equal":
            return f"{shown} is less than {context['ge']}", f"Use {context['ge']} or more."
        case "less_than_equal":
            return f"{shown} is more than {context['le']}", f"Use {context['le']} or less."
        case "less_than":
            return f"{shown} is not less than {context['lt']}", f"Use less than {context['lt']}."
        case _ if this.sections:
            return f"{shown} is not a mapping", such
        case _:
            return f"{shown} is not valid here", such


def _none_of(given: Any, known: tuple[Any, ...]) -> tuple[str, str]:
    close = words.nearest(given, known)
    listed = ", ".join(map(str, known))
    return (
        f"{_shown(given)} is none of {listed}",
        f"Did you mean {close}?" if close else f"Choose one of {listed}.",
    )


def _all_kinds(sections: list[type[BaseModel]]) -> tuple[Any, ...]:
    return tuple(kind for section in sections for kind in schema.kinds(section))


def _shown(value: Any) -> str:
    """A value for a message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
