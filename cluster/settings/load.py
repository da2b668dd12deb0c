"""From a stack file, or from the engine's copy of it, to Settings."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from cluster.settings import checks
from cluster.settings.base import Name, Region, Section, form
from cluster.settings.images import Images
from cluster.settings.pools import AcceleratedPool, SystemPool
from cluster.settings.problems import Problem, SettingsError, from_validation, unknown_key
from cluster.settings.sections import (
    Access,
    Kubernetes,
    Network,
    Observability,
    Storage,
    TrainerImage,
    Training,
)

PROJECT = "shardyard"
M = TypeVar("M", bound=BaseModel)


class _Top(Section):
    """The keys that are no section of their own."""

    region: Region
    tags: dict[str, str] = Field(default_factory=dict)
    accounts: tuple[Annotated[str, form(r"^\d{12}$", '"123456789012"')], ...] = ()


@dataclass(frozen=True)
class Settings:
    """All settings of one stack. `directory` is where the stack file's relative paths start."""

    stack: str
    directory: Path
    region: str
    tags: Mapping[str, str]
    accounts: tuple[str, ...]
    """The only account numbers that this stack may be brought up in. Empty: any."""
    network: Network
    kubernetes: Kubernetes
    access: Access
    system_pool: SystemPool
    pools: Mapping[str, AcceleratedPool]
    storage: Storage
    image: TrainerImage
    images: Images
    training: Training
    observability: Observability

    @property
    def name(self) -> str:
        """The cluster's name, and the first word of every other one."""
        return f"{PROJECT}-{self.stack}"


SECTIONS: dict[str, type[BaseModel]] = {
    "network": Network,
    "kubernetes": Kubernetes,
    "access": Access,
    "systemPool": SystemPool,
    "storage": Storage,
    "image": TrainerImage,
    "images": Images,
    "training": Training,
    "observability": Observability,
}
_OPTIONAL = {"access", "images", "training", "observability"}
_ATTRIBUTES = {"systemPool": "system_pool"}
KNOWN = [*(field.alias or name for name, field in _Top.model_fields.items()), *SECTIONS, "pools"]


def load_stack_file(path: str | Path, now: datetime | None = None) -> Settings:
    """Read stacks/Pulumi.<stack>.yaml without the engine.

    Raises SettingsError with all problems, an unreadable file among them.
    """
    path = Path(path)
    stack = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise SettingsError(str(path), [Problem("(file)", f"can't be read: {error}")]) from None
    config = content.get("config") if isinstance(content, dict) else None
    if not isinstance(config, dict):
        raise SettingsError(str(path), [Problem("config", "is missing: the settings are its keys")])
    prefix = f"{PROJECT}:"
    values = {
        str(key).removeprefix(prefix): value for key, value in config.items() if str(key).startswith(prefix)
    }
    return parse(stack, path.parent, values, source=str(path), now=now)


def from_engine(
    stack: str, config: Mapping[str, str], directory: Path, now: datetime | None = None
) -> Settings:
    """Take the settings from the engine's configuration, where every object is a JSON text."""
    prefix = f"{PROJECT}:"
    values = {}
    for key, text in config.items():
        if key.startswith(prefix):
            is_json = text[:1] in ("{", "[")
            values[key.removeprefix(prefix)] = json.loads(text) if is_json else text
    return parse(stack, directory, values, source=f"stack {stack}", now=now)


def parse(
    stack: str, directory: Path, values: Mapping[str, Any], *, source: str, now: datetime | None = None
) -> Settings:
    """Validate every section by itself, then whatever can be said of the valid ones together."""
    problems: list[Problem] = []
    parts: dict[str, Any] = {}
    try:
        TypeAdapter(Name).validate_python(stack)
    except ValidationError:
        what = f"{stack!r} can't be part of a cluster's name: a–z, 0–9 and -, at most 30"
        problems.append(Problem("(stack name)", what))
    for key in values:
        if key not in KNOWN:
            problems.append(unknown_key(f"{PROJECT}:{key}", key, KNOWN))
    top = {key: values[key] for key in ("region", "tags", "accounts") if key in values}
    head = _validate(_Top, top, f"{PROJECT}:", problems)
    if head:
        parts.update(region=head.region, tags=head.tags, accounts=head.accounts)
    for key, model in SECTIONS.items():
        path = f"{PROJECT}:{key}"
        if key not in values and key not in _OPTIONAL:
            problems.append(Problem(path, "is missing"))
        elif section := _validate(model, values.get(key, {}), path, problems):
            parts[_ATTRIBUTES.get(key, key)] = section
    parts["pools"] = _pools(values.get("pools", {}), problems)
    for problem in checks.run({**parts, "directory": directory, "now": now or datetime.now(UTC)}):
        problems.append(Problem(f"{PROJECT}:{problem.path}", problem.what, problem.todo))
    if problems:
        raise SettingsError(source, problems)
    settings = {"stack": stack, "directory": directory, **parts}
    return Settings(**{field.name: settings[field.name] for field in fields(Settings)})


def _pools(value: Any, problems: list[Problem]) -> dict[str, AcceleratedPool]:
    """Each pool by itself, so that one bad pool doesn't hide what is wrong with the others."""
    path = f"{PROJECT}:pools"
    if not isinstance(value, dict):
        problems.append(Problem(path, "is a mapping from the pool's name to its settings"))
        return {}
    pools = {}
    for name, content in value.items():
        try:
            TypeAdapter(Name).validate_python(name)
        except ValidationError:
            problems.append(Problem(f"{path}.{name}", "is no name for a pool: a–z, 0–9 and -, at most 30"))
        if pool := _validate(AcceleratedPool, content, f"{path}.{name}", problems):
            pools[name] = pool
    return pools


def _validate(model: type[M], value: Any, path: str, problems: list[Problem]) -> M | None:
    """A section, or None. A section whose only fault are unknown keys is still there for the checks."""
    try:
        return _strictly(model, value)
    except ValidationError as error:
        problems.extend(from_validation(error, model, path))
        details = error.errors(include_url=False, include_input=False)
        if any(detail["type"] != "extra_forbidden" for detail in details):
            return None
    # What remains without them may be wrong as a whole, which nobody has looked at yet.
    return _validate(model, _without(value, [detail["loc"] for detail in details]), path, problems)


def _strictly(model: type[M], value: Any) -> M:
    """Through JSON, where a list is a tuple and a text is a time, but "1" is still no number."""
    return model.model_validate_json(
        json.dumps(value, default=lambda moment: moment.isoformat()), by_alias=True, by_name=False
    )


def _without(value: Any, locations: Iterable[tuple[int | str, ...]]) -> Any:
    """A copy of `value` that lacks the keys at these locations (which hold unions' tags as well)."""
    value = copy.deepcopy(value)
    for *parents, key in locations:
        node: Any = value
        for part in parents:
            if isinstance(part, int) or part in node:
                node = node[part]
        node.pop(key, None)
    return value
