"""Tags and filters of the EC2 resources that are ours; moto's own backend keeps the tags."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from moto.ec2 import utils as ec2_utils
from moto.ec2.models import EC2Backend, ec2_backends

from lab.aws.actions import Call

ec2_utils.EC2_RESOURCE_TO_PREFIX.update({"placement-group": "pg", "capacity-reservation": "cr"})


def backend(call: Call) -> EC2Backend:
    return ec2_backends[call.account][call.region]


def new_id(prefix: str) -> str:
    """Such as cr-0123456789abcdef0."""
    return str(ec2_utils.random_id(prefix))


def tag_new(call: Call, resource_id: str, kind: str) -> None:
    """Keep the tags that TagSpecifications give to a resource of this kind."""
    for specification in call.get("TagSpecifications", []):
        if specification.get("ResourceType") == kind:
            tags = {tag["Key"]: tag.get("Value", "") for tag in specification.get("Tags", [])}
            backend(call).tags[resource_id].update(tags)


def tags_of(call: Call, resource_id: str) -> list[dict[str, str]]:
    tags = backend(call).tags.get(resource_id, {})
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def selected(
    call: Call, attributes: Mapping[str, Any], tags: Iterable[Mapping[str, str]], filters: str = "Filters"
) -> bool:
    """Whether a resource passes the call's filters; `attributes` holds its values by filter name."""
    values = {f"tag:{tag['Key']}": tag["Value"] for tag in tags}
    known = {**attributes, **values, "tag-key": [key.removeprefix("tag:") for key in values]}
    for one in call.get(filters, []):
        have = known.get(one["Name"])
        have = have if isinstance(have, list) else [have]
        if not any(fnmatchcase(str(item), wanted) for item in have for wanted in one.get("Values", [])):
            return False
    return True
