"""Job files: strict YAML, with changes from the command line laid over it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from trainer import exits
from trainer.config.job import Job
from trainer.config.section import CONTRADICTION, contradictions, known


class _StrictLoader(yaml.SafeLoader):
    """YAML that notes keys given twice, of which plain YAML silently keeps the last."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.repeated: list[str] = []


def _mapping(loader: _StrictLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            loader.repeated.append(f"line {key_node.start_mark.line + 1}: key {key!r} is given twice")
        seen[key] = loader.construct_object(value_node, deep=True)
    return seen


_StrictLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def _parse(text: str) -> tuple[Any, list[str]]:
    """What a text says, and what is wrong with it. Raises ValueError, in one line, where it is no YAML."""
    loader = _StrictLoader(text)
    try:
        return loader.get_single_data(), loader.repeated
    except yaml.YAMLError as error:
        raise ValueError(f"is not valid YAML: {' '.join(str(error).split())}") from None
    finally:
        loader.dispose()


def load(path: Path, overrides: Iterable[str] = ()) -> Job:
    """The job that a file describes, with `a.b=c` overrides applied (values are YAML).

    Raises exits.Failure with status CONFIG, naming every problem at once.
    """
    problems: list[str] = []
    document: Any = None
    try:
        document, problems = _parse(path.read_text())
    except OSError as error:
        problems.append(f"cannot be read: {error.strerror}")
    except ValueError as error:
        problems.append(str(error))
    else:
        if not isinstance(document, dict):
            problems.append("must be a mapping of sections")
    if isinstance(document, dict):
        for override in overrides:
            problem = _apply(document, override)
            if problem:
                problems.append(problem)
        try:
            job = Job.model_validate(document)
        except ValidationError as error:
            wrong = [dict(detail) for detail in error.errors() if detail["type"] != CONTRADICTION]
            problems += [_sentence(detail) for detail in wrong]
            # pydantic compares values only where all of them are right; here, also those that are.
            found = contradictions(known(Job, document))
            problems += [f"{at}: {sentence}" if at else sentence for at, sentence in found]
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
        value, repeated = _parse(text)
    except ValueError as error:
        return f"--set {override}: {error}"
    if repeated:
        return f"--set {override}: {'; '.join(repeated)}"
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
