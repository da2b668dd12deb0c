"""Image aliases: the lab's own builds of vendors' programs, under the names of the vendors' images.

A stack file for AWS names the vendors' images, most of them by digest, and no registry that has them can be reached
from here. A real node's containerd therefore knows the lab's images by those names too, so that such a stack comes
up unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.settings.base import image_reference
from cluster.settings.images import Images

LAB_IMAGES = {
    "training_operator": "lab/training-operator:v1.8.1",
    "prometheus": "lab/prometheus:v2.42.0",
    "nvidia_device_plugin": "lab/nvidia-device-plugin:1",
    "efa_device_plugin": "lab/efa-device-plugin:1",
}
"""Setting in `images` of the stack file → the lab's image of that program."""
PLUGINS = ("nvidia_device_plugin", "efa_device_plugin")
"""What runs on accelerated nodes; operators and monitoring run on the others."""


def aliases(*, accelerated: bool) -> dict[str, str]:
    """Vendor's name, as containerd's Kubernetes interface looks it up → the lab's image, for one kind of node."""
    defaults = Images()
    return {
        lookup_name(image_reference(getattr(defaults, key))): image
        for key, image in LAB_IMAGES.items()
        if (key in PLUGINS) == accelerated
    }


def lookup_name(reference: str) -> str:
    """A reference without its tag if it has a digest, which is what containerd resolves (ParseDockerRef).

    >>> lookup_name("docker.io/prom/prometheus:v3.5.0@sha256:aa")
    'docker.io/prom/prometheus@sha256:aa'
    """
    name, at, digest = reference.partition("@")
    if not at:
        return reference
    host, slash, path = name.rpartition("/")
    return f"{host}{slash}{path.partition(':')[0]}@{digest}"


def provide(registry: str, ctr: Callable[..., bool], *, accelerated: bool) -> list[str]:
    """Pull the lab's images and tag them with the vendors' names. Returns the names that could not be provided.

    `ctr` runs containerd's client in the node with the given arguments and returns whether it succeeded. A lab
    whose registry lacks these images (a test of nodes alone) has no aliases.
    """
    missing = []
    for name, image in aliases(accelerated=accelerated).items():
        source = f"{registry}/{image}"
        if not (ctr("images", "pull", source) and ctr("images", "tag", "--force", source, name)):
            missing.append(name)
    return missing
