"""Repositories whose images are those of the lab's registry.

moto answers the calls from its own list of images; here that list is read from the registry first, and
what moto drops from it is deleted there afterwards.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.ecr.models import ECRBackend, Image, Repository, ecr_backends

from lab.aws.actions import Call, action, after, before
from lab.aws.ecr.distribution import Manifest, Registry

TOKEN_HOURS = 12


@dataclass
class Memory:
    """What was seen of a repository: the registry's API doesn't list untagged images."""

    images: dict[str, Image] = field(default_factory=dict)
    """By digest."""
    first: dict[str, str] = field(default_factory=dict)
    """The digest that a tag had when it was first seen."""
    dropped: set[tuple[str, str]] = field(default_factory=set)
    """Tags taken off an image (with its digest): the registry can't do that, so it is remembered."""


@dataclass
class Memories:
    """By repository name."""

    repositories: dict[str, Memory] = field(default_factory=dict)


class RegistryImage(Image):
    """An image with its true size."""

    def __init__(self, account: str, repository: str, manifest: Manifest) -> None:
        super().__init__(account, None, manifest.content, repository, manifest.media_type, manifest.digest)
        self.size = manifest.size

    def get_image_size_in_bytes(self) -> int:
        return self.size


def _backend(call: Call) -> ECRBackend:
    return ecr_backends[call.account][call.region]


def _memory(call: Call, repository: str) -> Memory:
    return call.world.state(Memories, call.region).repositories.setdefault(repository, Memory())


def _uri(call: Call, repository: Repository) -> None:
    repository.uri = f"{call.world.lab.registry}/{repository.name}"


@after("ecr", "CreateRepository")
def named_after_the_registry(call: Call, result: Any) -> None:
    _uri(call, result["repository"])


@before(
    "ecr",
    "BatchDeleteImage",
    "BatchGetImage",
    "DeleteRepository",
    "DescribeImages",
    "DescribeImageScanFindings",
    "ListImages",
)
def read_the_registry(call: Call) -> None:
    """Bring moto's list of images up to date."""
    repository = _backend(call).repositories.get(call["repositoryName"])
    if repository is None:
        return
    registry, memory = Registry(call.world.lab.registry), _memory(call, repository.name)
    tags: dict[str, list[str]] = {}
    for tag in registry.tags(repository.name):
        digest = registry.digest(repository.name, tag)
        if digest is None:
            continue
        first = memory.first.setdefault(tag, digest)
        if repository.image_tag_mutability == "IMMUTABLE" and registry.digest(repository.name, first):
            # The registry let the tag be moved; ECR would have refused that push.
            tags.setdefault(digest, [])
            digest = first
        tags.setdefault(digest, [])
        if (tag, digest) not in memory.dropped:
            tags[digest].append(tag)
    for digest in set(memory.images) - set(tags):
        if registry.digest(repository.name, digest):
            tags[digest] = []
        else:
            del memory.images[digest]
    for digest in set(tags) - set(memory.images):
        memory.images[digest] = RegistryImage(
            call.account, repository.name, registry.manifest(repository.name, digest)
        )
    for digest, image in memory.images.items():
        image.image_tags = list(tags[digest])
        image.image_tag = image.image_tags[-1] if image.image_tags else None
    repository.images = list(memory.images.values())


@after("ecr", "BatchDeleteImage")
def delete_in_the_registry(call: Call, _: Any) -> None:
    repository = _backend(call).repositories[call["repositoryName"]]
    registry, memory = Registry(call.world.lab.registry), _memory(call, repository.name)
    kept = {image.image_digest for image in repository.images}
    for digest in set(memory.images) - kept:
        registry.delete(repository.name, digest)
        del memory.images[digest]
    # The image of a tag that was its only one is gone with it; where others stay, only the tag goes.
    for one in call["imageIds"]:
        tag = one.get("imageTag")
        if tag and "imageDigest" not in one and memory.first.get(tag) in kept:
            memory.dropped.add((tag, memory.first[tag]))


@after("ecr", "DeleteRepository")
def empty_the_registry(call: Call, _: Any) -> None:
    """moto refused if there are images and no `force`. The layers stay until the registry collects garbage."""
    name = call["repositoryName"]
    registry = Registry(call.world.lab.registry)
    for digest in _memory(call, name).images:
        registry.delete(name, digest)
    call.world.state(Memories, call.region).repositories.pop(name, None)


@action("ecr", "GetAuthorizationToken")
def get_authorization_token(call: Call) -> dict[str, Any]:
    """Of the form that ECR gives; the lab's registry lets anybody on this machine in."""
    token = b64encode(f"AWS:{call.account}-auth-token".encode()).decode()
    return {
        "authorizationData": [
            {
                "authorizationToken": token,
                "expiresAt": datetime.now(UTC) + timedelta(hours=TOKEN_HOURS),
                "proxyEndpoint": f"http://{call.world.lab.registry}",
            }
        ]
    }
