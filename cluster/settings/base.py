"""The base class of all sections, and the value types that several sections share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, GetCoreSchemaHandler, Tag
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


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


def invalid(what: str, todo: str, key: str = "") -> PydanticCustomError:
    """The error that a validator raises: what is wrong, what to do, and which key of a section is meant."""
    return PydanticCustomError("invalid", "{what}", {"what": what, "todo": todo, "key": key})


@dataclass(frozen=True)
class Form:
    """Metadata of a text: the pattern of the whole text, what such a text is, and an example."""

    pattern: str
    what: str
    example: str

    def check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise invalid(f"{text!r} is not {self.what}", f"Such as {self.example}.")
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


LOOPBACK_REGISTRY = re.compile(r"^(localhost|127\.0\.0\.1)(:\d+)?/")
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_TAGGED = re.compile(r"^[a-z0-9.:/_-]+:[A-Za-z0-9._-]+$")


def is_pinned(reference: str) -> bool:
    """Whether an image reference ends in a digest, and so always names the same content."""
    return bool(_DIGEST.search(reference))


def _pinned_image(reference: str) -> str:
    if is_pinned(reference) or LOOPBACK_REGISTRY.match(reference):
        return reference
    raise invalid(
        f"{reference!r} is not pinned to a digest",
        "Write name@sha256:…, or {tag: name:v1, unpinned: <the reason>}. A plain tag is accepted from a "
        "registry on loopback only.",
    )


def _tagged_image(reference: str) -> str:
    if _TAGGED.match(reference) and not reference.endswith(":latest"):
        return reference
    raise invalid(f"{reference!r} has no fixed tag", "Such as docker.io/prom/prometheus:v3.5.0.")


def _network(text: str) -> str:
    try:
        IPv4Network(text)
    except ValueError as error:
        raise invalid(
            f"{text!r} is not an IPv4 network: {error}", "Write address/prefix length, such as 10.30.0.0/16."
        ) from None
    return text


def _private_network(text: str) -> str:
    if not IPv4Network(_network(text)).is_private:
        raise invalid(
            f"{text} is not a private network", "Choose one of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16."
        )
    return text


PinnedImage = Annotated[
    str, AfterValidator(_pinned_image), Field(examples=[f"registry.example.com/image@sha256:{'0' * 64}"])
]
TaggedImage = Annotated[
    str, AfterValidator(_tagged_image), Field(examples=["docker.io/prom/prometheus:v3.5.0"])
]
Cidr = Annotated[str, AfterValidator(_network), Field(examples=["10.30.0.0/16"])]
PrivateCidr = Annotated[str, AfterValidator(_private_network), Field(examples=["10.30.0.0/16"])]
Name = Annotated[
    str,
    Form(
        r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?",
        "a name: a–z, 0–9 and -, a letter first, at most 30 characters",
        "p5-fleet",
    ),
]
"""The name of an AWS resource, a Kubernetes object and a label value at once: hence short and lower case."""
Region = Annotated[str, Form(r"[a-z]{2}(-[a-z]+)+-\d", "the name of an AWS region", "us-east-1")]
ZoneId = Annotated[str, Form(r"[a-z]+\d+-az\d+", "the id of an Availability Zone", "use1-az4")]
AccountId = Annotated[str, Form(r"\d{12}", "an AWS account id, 12 digits in quotes", '"123456789012"')]
PrincipalArn = Annotated[
    str,
    Form(
        r"arn:aws[a-z-]*:iam::\d{12}:(root|(user|role)/.+)",
        "the ARN of an IAM role, user or account root",
        "arn:aws:iam::123456789012:role/research",
    ),
]
Quantity = Annotated[str, Form(r"\d+(\.\d+)?(m|Ki|Mi|Gi|Ti)?", "a Kubernetes quantity", '250m, "2" or 512Mi')]
LogRetentionDays = Literal[
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653
]
"""The retentions that CloudWatch Logs has (PutRetentionPolicy)."""


class Unpinned(Section):
    """A third-party image whose digest isn't known yet, with the reason."""

    tag: TaggedImage
    unpinned: Annotated[
        str, Form(r"(?s).{10,}", "a reason of at least 10 characters", "the vendor publishes tags only")
    ]
    """Why there is no digest."""


def _image_branch(value: object) -> str:
    return "(digest)" if isinstance(value, str) else "(unpinned)"


Image = Annotated[
    Annotated[PinnedImage, Tag("(digest)")] | Annotated[Unpinned, Tag("(unpinned)")],
    Discriminator(_image_branch),
]


def image_reference(image: str | Unpinned) -> str:
    """The value for a container's `image`."""
    return image.tag if isinstance(image, Unpinned) else image
