"""From a stack file to Settings, with the engine's copy of it or without.

The file is the one source. The engine hands its program the configuration as it read it; that is compared with the
file, and only secrets, which are encrypted in the file, come from the engine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cluster.settings import checks, words
from cluster.settings.base import Name
from cluster.settings.problems import Problem, SettingsError
from cluster.settings.reading import read
from cluster.settings.schema import example, of, written
from cluster.settings.stack import PROJECT, Settings, StackFile, top_level
from cluster.settings.validation import MISSING, validate

PREFIX = f"{PROJECT}:"
SECRET = "(secret)"
"""In place of an encrypted text, where there is no engine to decrypt it."""


def load_stack_file(path: str | Path, now: datetime | None = None) -> Settings:
    """Read stacks/Pulumi.<stack>.yaml without the engine.

    Raises SettingsError with all problems, an unreadable file among them.
    """
    path = Path(path)
    stack = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    values = {key: _without_engine(value) for key, value in _configuration(path).items()}
    return parse(stack, path.parent, values, source=str(path), now=now)


def from_engine(
    stack: str, config: Mapping[str, str], directory: Path, now: datetime | None = None
) -> Settings:
    """Read the stack file as part of the program. `config` is the engine's: a text for each key, objects as JSON.

    Raises SettingsError as `load_stack_file` does, and where the engine has other values than the file.
    """
    path = directory / f"Pulumi.{stack}.yaml"
    given = {key.removeprefix(PREFIX): text for key, text in config.items() if key.startswith(PREFIX)}
    values = _configuration(path)
    problems = []
    for key in sorted({*given, *values}):
        if key not in values:
            what, todo = "is not in the stack file, and the engine has it", "Write it into the file."
        elif key not in given or not _agree(values[key], engine := _decoded(values[key], given[key])):
            what = "is another value in the engine than in the stack file"
            todo = (
                "Change the file; --config-file, environments and defaults in Pulumi.yaml are not supported."
            )
        else:
            values[key] = _with_secrets(values[key], engine)
            continue
        problems.append(Problem(f"{PREFIX}{key}", what, todo))
    if problems:
        raise SettingsError(str(path), problems)
    return parse(stack, directory, values, source=str(path), now=now)


def parse(
    stack: str, directory: Path, values: Mapping[str, Any], *, source: str, now: datetime | None = None
) -> Settings:
    """Validate every section by itself, then what can be said of the valid ones together."""
    problems: list[Problem] = []
    try:
        TypeAdapter(Name).validate_python(stack)
    except ValidationError:
        what = f"{stack!r} can't be part of a cluster's name"
        problems.append(
            Problem("(stack name)", what, "Use a–z, 0–9 and -, a letter first, at most 30 characters.")
        )
    known = top_level()
    given = _known_keys(values, known, problems)
    parts: dict[str, Any] = {"directory": directory, "now": now or datetime.now(UTC)}
    for name, field in StackFile.model_fields.items():
        key = field.alias or name
        path = f"{PREFIX}{key}"
        if key not in given:
            if field.is_required():
                problems.append(Problem(path, "is missing", f"Such as {written(of(field))}."))
            else:
                parts[name] = field.get_default(call_default_factory=True)
        elif given[key] is None:
            problems.append(Problem(path, "has no value", f"Such as {written(of(field))}."))
        elif key == "nodeGroups":
            parts[name] = _node_groups(field.annotation, given[key], path, problems)
        else:
            value = validate(field.annotation, given[key], path, problems, tuple(field.metadata))
            if value is not MISSING:
                parts[name] = value
    names = given.get("nodeGroups", {})
    parts["node_group_names"] = frozenset(names if isinstance(names, dict) else ())
    for problem in checks.run(parts):
        problems.append(Problem(f"{PREFIX}{problem.path}", problem.what, problem.todo))
    if problems:
        raise SettingsError(source, problems)
    parts["stack"] = stack
    return Settings(**{field.name: parts[field.name] for field in fields(Settings)})


def _known_keys(
    values: Mapping[str, Any], known: Mapping[str, Any], problems: list[Problem]
) -> dict[str, Any]:
    """The values by known keys. A key with an old name is reported, and its value checked under the new one."""
    given = {}
    for key, value in values.items():
        if key in known:
            given[key] = value
            continue
        advice = words.advice("StackFile", key, list(known))
        problems.append(Problem(f"{PREFIX}{key}", "is not a known key", advice))
        meant = words.renamed("StackFile", key) or words.same(key, known)
        if meant and meant not in values:
            given[meant] = value
    return given


def _node_groups(annotation: Any, value: Any, path: str, problems: list[Problem]) -> dict[str, Any]:
    """Each node group by itself, so that one bad node group doesn't hide what is wrong with the others."""
    if not isinstance(value, dict):
        what = f"{value!r:.60} is not a mapping from the node group's name to its settings"
        problems.append(Problem(path, what, f"Such as {written(example(annotation))}."))
        return {}
    found = {}
    for name, content in value.items():
        entry = validate(annotation, {name: content}, path, problems)
        if entry is not MISSING:
            found.update(entry)
    return found


def _configuration(path: Path) -> dict[str, Any]:
    """The project's own values by key, without its prefix. Raises SettingsError."""
    content = read(path)
    config = content.get("config") if isinstance(content, dict) else None
    if not isinstance(config, dict):
        todo = f"Begin with config: and, below it, {PREFIX}region: us-east-1."
        raise SettingsError(str(path), [Problem("config", "is missing: the settings are its keys", todo)])
    problems, values = [], {}
    for key, value in config.items():
        namespace, colon, rest = key.partition(":")
        if namespace == PROJECT and colon:
            values[rest] = value
        elif not colon or words.nearest(namespace, [PROJECT], cutoff=0.75):
            # Pulumi reads a key without a prefix as the project's, and rewrites the file accordingly.
            name = rest if colon else key
            problems.append(Problem(key, "lacks the project's prefix", f"Write {PREFIX}{name}."))
    if problems:
        raise SettingsError(str(path), problems)
    return values


def _is_secret(value: Any) -> bool:
    """{secure: …}, as `pulumi config set --secret` writes it (sdk/go/common/resource/config, isSecureValue)."""
    return isinstance(value, dict) and list(value) == ["secure"] and isinstance(value["secure"], str)


def _without_engine(value: Any) -> Any:
    """The value with a placeholder for each secret."""
    if _is_secret(value):
        return SECRET
    if isinstance(value, dict):
        return {key: _without_engine(entry) for key, entry in value.items()}
    return [_without_engine(entry) for entry in value] if isinstance(value, list) else value


def _decoded(value: Any, text: str) -> Any:
    """The engine's text as a value: only texts are no JSON, and null is the empty text."""
    if isinstance(value, str) or (_is_secret(value) and text[:1] not in ("{", "[")):
        return text
    if value is None and not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _agree(value: Any, engine: Any) -> bool:
    """Whether the engine has the file's value, secrets aside. True is not 1 here."""
    if _is_secret(value):
        return True
    if isinstance(value, dict) and isinstance(engine, dict):
        return value.keys() == engine.keys() and all(_agree(value[key], engine[key]) for key in value)
    if isinstance(value, list) and isinstance(engine, list):
        return len(value) == len(engine) and all(map(_agree, value, engine))
    return value == engine and isinstance(value, bool) == isinstance(engine, bool)


def _with_secrets(value: Any, engine: Any) -> Any:
    """The file's value, with the engine's in place of secrets."""
    if _is_secret(value):
        return engine
    if isinstance(value, dict):
        return {key: _with_secrets(entry, engine[key]) for key, entry in value.items()}
    return list(map(_with_secrets, value, engine)) if isinstance(value, list) else value
