"""Job files: strict YAML, with changes from the command line laid over it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from trainer import exits
from trainer.config.job import Job


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice, of which plain YAML silently keeps the last."""


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {key!r} is given twice", key_node.start_mark
            )
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load(path: Path, overrides: Iterable[str] = ()) -> Job:
    """The job that a file describes, with `a.b=c` overrides applied (values are YAML).

    Raises exits.Failure with status CONFIG, naming every problem at once.
    """
    problems: list[str] = []
    document: Any = {}
    try:
        document = yaml.load(path.read_text(), _StrictLoader)
    except OSError as error:
        problems.append(f"cannot be read: {error.strerror}")
    except yaml.YAMLError as error:
        problems.append(f"is not valid YAML: {error}")
    else:
        if not isinstance(document, dict):
            problems.append("must be a mapping of sections")
    if not problems:
        for override in overrides:
            problem = _apply(document, override)
            if problem:
                problems.append(problem)
        try:
            job = Job.model_validate(document)
        except ValidationError as error:
            problems += [_sentence(dict(detail)) for detail in error.errors()]
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise exits.Failure(f"{path}: {len(problems)} problem(s)\n{lines}", exits.CONFIG)
    return job


def _apply(document: dict[str, Any], override: str) -> str | None:
    """Write one `a.b=c` into the document; returns what is wrong with it, if anything."""
    path, equals, text = override.partition("=")
    if not equals or not all(path.split(".")):
        return f"--set {override}: expected a.b=value"
    try:
        value = yaml.load(text, _StrictLoader)
    except yaml.YAMLError as error:
        return f"--set {override}: {error}"
    *parents, last = path.split(".")
    for parent in parents:
        below = document.setdefault(parent, {})
        if not isinstance(below, dict):
            return f"--set {override}: {parent} is not a section"
        document = below
    document[last] = value
    return None


def _sentence(detail: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in detail["loc"])
    message = str(detail["msg"]).removeprefix("Value error, ")
    if detail["type"] == "extra_forbidden":
        message = "unknown key"
    elif detail["type"] == "missing":
        message = "is required"
    elif detail["type"] != "value_error":
        message = f"{message} (got {detail['input']!r})"
    return f"{path}: {message}" if path else message
