"""ECR on a real registry: what is pushed there is described here, and what is deleted here is gone there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from lab import registry
from lab.settings import Lab
from tests.lab.aws.support import Emulator, refused

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture(scope="module")
def lab(emulator: Emulator) -> Iterator[Lab]:
    """The emulator's lab with its registry running."""
    registry.start(emulator.world.lab)
    yield emulator.world.lab
    registry.stop(emulator.world.lab)


def push(lab: Lab, name: str, tag: str, content: bytes) -> str:
    """Push an image of one layer; returns its digest."""
    descriptors = []
    for blob in (b"{}", content):
        digest = f"sha256:{hashlib.sha256(blob).hexdigest()}"
        upload = registry.ask(lab, "POST", f"/v2/{name}/blobs/uploads/")["Location"]
        path = "/" + upload.split("/", 3)[3] if "://" in upload else upload
        octets = {"Content-Type": "application/octet-stream"}
        registry.ask(lab, "PUT", f"{path}{'&' if '?' in path else '?'}digest={digest}", blob, octets)
        descriptors.append({"mediaType": "application/octet-stream", "digest": digest, "size": len(blob)})
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptors[0],
        "layers": descriptors[1:],
    }
    answer = registry.ask(
        lab, "PUT", f"/v2/{name}/manifests/{tag}", json.dumps(manifest).encode(), {"Content-Type": MANIFEST}
    )
    return str(answer["Docker-Content-Digest"])


@pytest.mark.lab
def test_a_repository_is_the_registrys(emulator: Emulator, lab: Lab) -> None:
    ecr, name = emulator.client("ecr"), "shardyard/trainer"
    created = ecr.create_repository(repositoryName=name, imageTagMutability="IMMUTABLE")["repository"]
    assert created["repositoryUri"] == f"{lab.registry}/{name}"
    assert ecr.describe_images(repositoryName=name)["imageDetails"] == []
    first = push(lab, name, "v1", b"layer")
    [image] = ecr.describe_images(repositoryName=name)["imageDetails"]
    assert (image["imageDigest"], image["imageTags"]) == (first, ["v1"])
    assert image["imageSizeInBytes"] == len(b"{}") + len(b"layer")
    assert image["imageManifestMediaType"] == MANIFEST
    assert (
        refused(ecr.describe_images, repositoryName=name, imageIds=[{"imageTag": "v2"}])
        == "ImageNotFoundException"
    )
    second = push(lab, name, "v2", b"another")
    push(lab, name, "v1", b"moved")
    moved = ecr.describe_images(repositoryName=name, imageIds=[{"imageTag": "v1"}])["imageDetails"][0]
    assert moved["imageDigest"] == first  # immutable: the tag stays where it was
    ecr.batch_delete_image(repositoryName=name, imageIds=[{"imageDigest": second}])
    assert registry.digest(lab, name, second) is None
    assert refused(ecr.delete_repository, repositoryName=name) == "RepositoryNotEmptyException"
    ecr.delete_repository(repositoryName=name, force=True)
    assert registry.digest(lab, name, first) is None
    assert refused(ecr.describe_repositories, repositoryNames=[name]) == "RepositoryNotFoundException"


@pytest.mark.lab
def test_a_tag_can_be_taken_off_an_image_that_has_others(emulator: Emulator, lab: Lab) -> None:
    ecr, name = emulator.client("ecr"), "shardyard/tags"
    ecr.create_repository(repositoryName=name)
    digest = push(lab, name, "a", b"same")
    push(lab, name, "b", b"same")
    ecr.batch_delete_image(repositoryName=name, imageIds=[{"imageTag": "a"}])
    [image] = ecr.describe_images(repositoryName=name)["imageDetails"]
    assert (image["imageDigest"], image["imageTags"]) == (digest, ["b"])
    moved = push(lab, name, "b", b"mutable")
    images: list[dict[str, Any]] = ecr.describe_images(repositoryName=name)["imageDetails"]
    assert {one["imageDigest"]: one.get("imageTags", []) for one in images} == {digest: [], moved: ["b"]}
    ecr.delete_repository(repositoryName=name, force=True)


def test_its_token_is_for_the_registry(emulator: Emulator) -> None:
    [data] = emulator.client("ecr").get_authorization_token()["authorizationData"]
    assert data["proxyEndpoint"] == f"http://{emulator.world.lab.registry}"
    assert data["authorizationToken"]
