"""Upload the images that `build` exported to the lab's registry, by the OCI distribution protocol.

Not by `buildah push`, which would compress every layer for the node to expand again. Over loopback that would take
most of the time, and every new lab starts with an empty registry.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from urllib.parse import urlsplit

from lab import registry
from lab.images import build
from lab.images.recipes import IMAGES, Image
from lab.settings import Lab
from lab.toolchain.errors import ToolchainError


def upload(lab: Lab) -> None:
    """Push every image that the registry lacks or has from an older build.

    Raises ToolchainError if an image was not built or the registry refuses it.
    """
    for image in IMAGES:
        if image.pushed:
            _upload(lab, image, build.exported(lab, image))


def _upload(lab: Lab, image: Image, folder: Path) -> None:
    """Upload layers, configuration and, last, the manifest, which makes the image exist."""
    try:
        manifest = (folder / "manifest.json").read_bytes()
    except FileNotFoundError:
        raise ToolchainError(
            f"image {image.local} was not built: run `make up` again, which builds it"
        ) from None
    digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    if registry.digest(lab, image.name, image.tag) == digest:
        return
    content = json.loads(manifest)
    for blob in (*content["layers"], content["config"]):
        _upload_blob(lab, image.name, blob["digest"], folder)
    headers = {"Content-Type": content["mediaType"]}
    registry.ask(lab, "PUT", f"/v2/{image.name}/manifests/{image.tag}", manifest, headers)


def _upload_blob(lab: Lab, name: str, digest: str, folder: Path) -> None:
    try:
        registry.ask(lab, "HEAD", f"/v2/{name}/blobs/{digest}")
        return
    except registry.Missing:
        pass
    begun = registry.ask(lab, "POST", f"/v2/{name}/blobs/uploads/", b"")
    place = urlsplit(begun["Location"])
    path = folder / digest.removeprefix("sha256:")
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(path.stat().st_size)}
    with path.open("rb") as body:
        registry.ask(lab, "PUT", f"{place.path}?{place.query}&digest={digest}", body, headers)
