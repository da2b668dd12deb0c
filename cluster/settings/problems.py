"""Problems of a stack file: found all at once, each with its path and what to do."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

EXAMPLES: dict[str, str] = {}
"""Patterns of the stack file's values, each with a text that matches (filled by cluster.settings.base.form)."""
RENAMED: dict[str, str] = {
    "keepData": "It is deleteData now, and means the opposite: data is kept unless deleteData is true.",
    "forceDestroy": "It is storage.deleteData: data is kept unless that is true.",
}
"""Keys that stack files had once, or that other tools have: what to write instead."""
_KINDS = "Capacity kinds: on-demand, odcr, capacity-block, spot."


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. `path` is as written in the file: shardyard:pools.p5.zone."""

    path: str
    what: str
    todo: str = ""

    def __str__(self) -> str:
        lines = [self.path, f"  {self.what}"]
        return "\n".join([*lines, f"  → {self.todo}"] if self.todo else lines)


class SettingsError(Exception):
    """Everything that is wrong with one stack file."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        count = len(self.problems)
        title = f"{source}: {count} problem{'s' if count != 1 else ''}"
        super().__init__("\n\n".join([title, *map(str, self.problems)]))


def from_validation(error: ValidationError, model: type[BaseModel], prefix: str) -> list[Problem]:
    """Translate pydantic's errors; `prefix` is the path of `model` in the file."""
    problems = []
    for detail in error.errors(include_url=False):
        location, owner = _walk(model, detail["loc"], detail["type"] == "extra_forbidden")
        path = ".".join([prefix, *location]) if not prefix.endswith(":") else prefix + ".".join(location)
        if detail["type"] == "extra_forbidden":
            problems.append(unknown_key(path, location[-1], keys_of(owner)))
        elif detail["type"] == "missing":
            problems.append(Problem(path, "is missing", _hint(owner, location[-1])))
        else:
            problems.append(Problem(path, *_say(detail)))
    return _without_repeats(problems)


def unknown_key(path: str, key: str, known: Sequence[str]) -> Problem:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    todo = f"Did you mean {close[0]}?" if close else f"Known here: {', '.join(sorted(known))}."
    return Problem(path, "is not a known key", RENAMED.get(key, todo))


def keys_of(model: type[BaseModel] | None) -> list[str]:
    if model is None:
        return []
    return [field.alias or name for name, field in model.model_fields.items()]


def _say(detail: ErrorDetails) -> tuple[str, str]:
    """What is wrong with a value, and what to do."""
    given, context = detail["input"], detail.get("ctx", {})
    if detail["type"] in ("literal_error", "union_tag_invalid"):
        value = context.get("tag", given)
        known = re.findall(r"'([^']*)'", context.get("expected") or context["expected_tags"])
        close = difflib.get_close_matches(str(value), known, n=1)
        return f"{value!r} is none of {', '.join(known)}", f"Did you mean {close[0]}?" if close else ""
    if detail["type"] == "union_tag_not_found":
        return "has no kind", _KINDS
    if detail["type"] == "string_pattern_mismatch":
        example = EXAMPLES.get(context["pattern"])
        return f"{given!r} is not of the form {context['pattern']}", f"Such as {example}." if example else ""
    message = detail["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    plain = detail["type"] == "value_error" or isinstance(given, dict | list)
    return message if plain else f"{message} (given: {given!r})", ""


def _hint(owner: type[BaseModel] | None, key: str) -> str:
    for name, field in (owner.model_fields if owner else {}).items():
        if (field.alias or name) == key and key in ("kind", "capacity"):
            return _KINDS
    return ""


def _walk(
    model: type[BaseModel], location: Sequence[int | str], last_is_unknown: bool
) -> tuple[list[str], type[BaseModel] | None]:
    """The path as written in the file, and the model that owns its last key.

    Pydantic's location holds more than the file does: the tag of a union, or the name of a branch.
    """
    path: list[str] = []
    owner: type[BaseModel] | None = model
    candidates: list[type[BaseModel]] = [model]
    inside_mapping = False
    for part in location:
        if isinstance(part, int):
            path[-1] += f"[{part}]"
            continue
        owner = next((one for one in candidates if part in keys_of(one)), None)
        if owner is not None:
            field = next(f for n, f in owner.model_fields.items() if (f.alias or n) == part)
            candidates, inside_mapping = models_in(field.annotation), _is_mapping(field.annotation)
            path.append(part)
        elif inside_mapping:
            path.append(part)
            inside_mapping = False
        elif last_is_unknown and part is location[-1]:
            owner = candidates[0] if len(candidates) == 1 else None
            path.append(part)
        else:  # a union's tag or branch: narrow down, and keep it out of the path
            candidates = [one for one in candidates if part in (_tag(one), one.__name__)] or candidates
    return path, owner


def _tag(model: type[BaseModel]) -> str | None:
    kind = model.model_fields.get("kind")
    values = typing.get_args(kind.annotation) if kind else ()
    return values[0] if values else None


def models_in(annotation: object) -> list[type[BaseModel]]:
    """Every model that an annotation mentions, however deep in unions, mappings and sequences."""
    if (
        isinstance(annotation, type)
        and issubclass(annotation, BaseModel)
        and not typing.get_origin(annotation)
    ):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in models_in(part)]


def _is_mapping(annotation: object) -> bool:
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        return any(_is_mapping(part) for part in typing.get_args(annotation))
    return origin is dict


def _without_repeats(problems: list[Problem]) -> list[Problem]:
    return list(dict.fromkeys(problems))
