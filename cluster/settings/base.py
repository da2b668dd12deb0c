"""The base of every section, and the words that several sections share."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic.alias_generators import to_camel

from cluster.settings.problems import EXAMPLES


class Section(BaseModel):
    """A part of the stack file: frozen, no unknown keys, no conversions, camelCase keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,  # for code; a stack file is read by alias only
        validate_default=True,
    )


def form(pattern: str, example: str) -> Any:
    """Metadata of a text of a certain form, with what to show to whoever got it wrong."""
    EXAMPLES[pattern] = example
    return Field(pattern=pattern)


LOOPBACK_REGISTRY = re.compile(r"^(localhost|127\.0\.0\.1)(:\d+)?/")
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_TAGGED = re.compile(r"^[a-z0-9.:/_-]+:[A-Za-z0-9._-]+$")


def is_pinned(reference: str) -> bool:
    """Whether an image reference ends in a digest, and so always means the same bytes."""
    return bool(_DIGEST.search(reference))


def _pinned_image(reference: str) -> str:
    if is_pinned(reference) or LOOPBACK_REGISTRY.match(reference):
        return reference
    raise ValueError(
        f"{reference!r} is not pinned: give it by digest (name@sha256:…); "
        "a tag is taken only from a registry on loopback"
    )


def _tagged_image(reference: str) -> str:
    if _TAGGED.match(reference) and not reference.endswith(":latest"):
        return reference
    raise ValueError(f"{reference!r} has no fixed tag, such as name:v1.2.3")


def _private_network(text: str) -> str:
    network = IPv4Network(text)  # raises ValueError with the reason
    if not network.is_private:
        raise ValueError(f"{text} is not a private network (10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16)")
    return text


def _network(text: str) -> str:
    IPv4Network(text)
    return text


PinnedImage = Annotated[str, AfterValidator(_pinned_image)]
TaggedImage = Annotated[str, AfterValidator(_tagged_image)]
Cidr = Annotated[str, AfterValidator(_network)]
PrivateCidr = Annotated[str, AfterValidator(_private_network)]
Name = Annotated[str, form(r"^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$", "p5-fleet")]
"""Names an AWS resource, a Kubernetes object and a label value at once: hence short and lower case."""
Region = Annotated[str, form(r"^[a-z]{2}(-[a-z]+)+-\d$", "us-east-1")]
ZoneId = Annotated[str, form(r"^[a-z]+\d+-az\d+$", "use1-az4")]
PrincipalArn = Annotated[
    str,
    form(r"^arn:aws[a-z-]*:iam::\d{12}:(root|(user|role)/.+)$", "arn:aws:iam::123456789012:role/research"),
]
Quantity = Annotated[str, form(r"^\d+(\.\d+)?(m|Ki|Mi|Gi|Ti)?$", '250m, "2" or 512Mi')]
"""A Kubernetes quantity: 250m, 2, 512Mi."""
LogDays = Literal[
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653
]
"""What CloudWatch Logs takes for a retention (PutRetentionPolicy)."""


class Unpinned(Section):
    """A third-party image for which no digest is on record yet, said openly."""

    tag: TaggedImage
    unpinned: Annotated[str, Field(min_length=10)]
    """Why there is no digest. Whoever reads the stack file should see it."""


def _form(value: object) -> str:
    return "(digest)" if isinstance(value, str) else "(unpinned)"


Image = Annotated[
    Annotated[PinnedImage, Tag("(digest)")] | Annotated[Unpinned, Tag("(unpinned)")], Discriminator(_form)
]


def image_reference(image: str | Unpinned) -> str:
    """What a container's `image` says."""
    return image.tag if isinstance(image, Unpinned) else image
