"""What EC2's types share: tags, and one filter."""

from __future__ import annotations

from typing import Any

from lab.providers.aws import tagging
from lab.providers.aws.operation import Operation
from lab.providers.aws.table import Tags


def ec2_tags(kind: str, target: str = "{id}") -> Tags:
    """EC2 takes tags in TagSpecifications when it creates, and by resource id afterwards."""
    return Tags(
        add="CreateTags",
        remove="DeleteTags",
        target={"Resources": [target]},
        keys="Tags",
        form="specifications",
        kind=kind,
    )


def where(name: str, *values: str) -> list[dict[str, Any]]:
    """The Filters parameter for one condition."""
    return [{"Name": name, "Values": list(values)}]


def tagged(operation: Operation, call: str) -> dict[str, Any]:
    """The TagSpecifications parameter, for a create call that a function makes; empty without tags."""
    assert operation.resource.tags is not None
    return tagging.creation_parameters(operation.resource.tags, call, "ec2", operation.value("tagsAll") or {})
