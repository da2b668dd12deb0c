"""Tags: on the create call, read back, and brought from one set to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.providers.aws.cloud import model
from lab.providers.aws.convert import member
from lab.providers.aws.operation import Operation, search
from lab.providers.aws.table import Tags


def creation_parameters(
    tags: Tags, operation: str, service: str, wanted: Mapping[str, str]
) -> dict[str, Any]:
    """The tags as the create operation takes them; nothing if it takes none."""
    shape = model(service).operation_model(operation).input_shape
    if not wanted or not tags.on_create:
        return {}
    if tags.form == "specifications":
        specification = {"ResourceType": tags.kind, "Tags": pairs(tags, wanted)}
        return {"TagSpecifications": [specification]}
    name = member(shape, tags.member)
    return {name: dict(wanted) if tags.form == "map" else pairs(tags, wanted)} if name else {}


def pairs(tags: Tags, values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{tags.key: key, tags.value: value} for key, value in sorted(values.items())]


def parse(tags: Tags, given: Any) -> dict[str, str]:
    """Tags as AWS gives them, without those AWS itself puts there."""
    if isinstance(given, list):
        given = {pair[tags.key]: pair[tags.value] for pair in given}
    return {key: value for key, value in (given or {}).items() if not key.startswith("aws:")}


def read(operation: Operation, description: Mapping[str, Any]) -> dict[str, str]:
    tags = operation.resource.tags
    assert tags is not None
    if tags.fetch:
        return parse(tags, search(tags.fetch.result, operation.run(tags.fetch)))
    return parse(tags, description.get(tags.member))


def change(operation: Operation, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Remove what is no longer wanted, then add and overwrite."""
    tags = operation.resource.tags
    assert tags is not None
    if tags.put:
        tags.put(operation, new)
        return
    target = operation.fill(tags.target)
    removed = sorted(set(old) - set(new))
    if removed:
        keys = [{"Key": key} for key in removed] if tags.keys == "Tags" else removed
        operation.call(tags.remove, **target, **{tags.keys: keys})
    added = {key: value for key, value in new.items() if old.get(key) != value}
    if added:
        shape = model(operation.resource.service).operation_model(tags.add).input_shape
        name = member(shape, "ResourceTags") or member(shape, "Tags") or "Tags"
        operation.call(tags.add, **target, **{name: added if tags.form == "map" else pairs(tags, added)})


def visible(
    tags_all: Mapping[str, str], old_tags: Mapping[str, str], defaults: Mapping[str, str]
) -> dict[str, str]:
    """The `tags` property of what is really there: the provider's default tags don't belong to it,
    unless the program gave the same ones itself."""
    return {
        key: value
        for key, value in tags_all.items()
        if defaults.get(key) != value or old_tags.get(key) == value
    }
