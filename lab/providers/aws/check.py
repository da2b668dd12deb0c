"""Check: inputs as the program gives them become inputs that can be sent, or failures that name them."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from typing import Any

from lab.providers.aws.convert import Problem
from lab.providers.aws.table import Autoname, Resource
from lab.providers.aws.validate import problems
from lab.providers.aws.wire import UNKNOWN, Unknown, reveal, secret_names


def check(
    resource: Resource,
    name: str,
    news: Mapping[str, Any],
    olds: Mapping[str, Any],
    seed: bytes,
    default_tags: Mapping[str, str],
) -> tuple[dict[str, Any], list[Problem]]:
    """The inputs with name and tags filled in, and everything that is wrong with them."""
    inputs = {key: value for key, value in news.items() if key != "__defaults" and value is not None}
    defaults: list[str] = []
    if resource.autoname:
        defaults = autoname(resource.autoname, name, inputs, olds, seed)
    if resource.tags:
        inputs["tagsAll"] = merged_tags(inputs.get("tags"), default_tags)
    inputs["__defaults"] = defaults
    secrets = secret_names(inputs)
    return inputs, [_without_value(each, secrets) for each in problems(resource, reveal(inputs))]


def _without_value(problem: Problem, secrets: set[str]) -> Problem:
    """Messages quote values; not those that are secret."""
    root = re.split(r"[.\[]", problem.path)[0]
    return (
        Problem(problem.path, "isn't what AWS takes here (its value is secret)")
        if root in secrets
        else problem
    )


def merged_tags(tags: Any, defaults: Mapping[str, str]) -> Any:
    """The provider's default tags with the resource's own over them, as pulumi-aws 7's tagsAll."""
    tags = reveal(tags)
    if isinstance(tags, Unknown):
        return UNKNOWN
    return {**defaults, **(tags or {})}


def autoname(
    rule: Autoname, name: str, inputs: dict[str, Any], olds: Mapping[str, Any], seed: bytes
) -> list[str]:
    """Fill in the name if the program gives none; returns the properties that were filled in.

    A name once made up stays (`olds`), and the same seed gives the same name, so that a preview's is the
    update's.
    """
    if inputs.get(rule.property) is not None:
        return []
    start = reveal(inputs.get(rule.prefix)) if rule.prefix else None
    if isinstance(start, Unknown):
        inputs[rule.property] = UNKNOWN
        return [rule.property]
    kept = olds.get(rule.property)
    if rule.property in (olds.get("__defaults") or []) and (
        start is None or str(reveal(kept)).startswith(start)
    ):
        inputs[rule.property] = kept
        return [rule.property]
    digits = random.Random(seed).getrandbits(28)
    stem = start if start is not None else f"{rule.leading}{name}-"
    made_up = f"{stem[: rule.longest - 7]}{digits:07x}"
    inputs[rule.property] = made_up.lower() if rule.lower else made_up
    return [rule.property]
