"""The list of images, each with a Containerfile in recipes/.

To add an image, add its Containerfile and an entry to IMAGES.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from lab.images import base
from lab.settings import Lab
from lab.toolchain import debian, stamps

FOLDER = Path(__file__).resolve().parent / "recipes"
LOCAL = "localhost"
"""The host part of image names in buildah's storage. In the registry they have the registry's."""


@dataclass(frozen=True)
class Image:
    """One image. `files` returns its build context: path in the context → path on this machine."""

    name: str
    tag: str
    needs: tuple[str, ...]
    """Steps of the toolchain's plan that must be done first."""
    files: Callable[[Lab], dict[str, Path]]
    pushed: bool = True
    assembled: tuple[str, ...] = field(default=())
    """Further inputs: the recipe of what is made during the build, such as the base's root file system."""

    @property
    def short(self) -> str:
        return self.name.rpartition("/")[2]

    @property
    def local(self) -> str:
        """Its name in buildah's storage."""
        return f"{LOCAL}/{self.name}:{self.tag}"

    @property
    def containerfile(self) -> Path:
        return FOLDER / f"{self.short}.Containerfile"

    @property
    def step(self) -> str:
        return f"image:{self.short}"

    def inputs(self, lab: Lab) -> str:
        """The digest of all inputs. Raises FileNotFoundError if one of the files is missing."""
        parts = [self.containerfile.read_text(), *self.assembled]
        for path, source in sorted(self.files(lab).items()):
            parts += [
                path,
                stamps.folder_digest(source) if source.is_dir() else stamps.known_digest(lab, source),
            ]
        return stamps.digest(parts)


def _binary(name: str) -> Callable[[Lab], dict[str, Path]]:
    return lambda lab: {name: (lab.bin / name).resolve()}


def _prometheus(lab: Lab) -> dict[str, Path]:
    unpacked = debian.root(lab)
    there = {path: unpacked / path for path in ("usr/bin/prometheus", "usr/share")}
    return {"prometheus.yml": FOLDER / "prometheus.yml"} | there


BASE = Image(
    "shardyard/base",
    "debian-12",
    needs=("tools",),
    files=lambda lab: {},
    pushed=False,
    assembled=base.recipe(),
)
IMAGES = (
    BASE,
    Image("lab/pause", "1", ("tools", "build:node-plugins"), _binary("node-plugins")),
    Image("lab/nvidia-device-plugin", "1", ("tools", "build:node-plugins"), _binary("node-plugins")),
    Image("lab/efa-device-plugin", "1", ("tools", "build:node-plugins"), _binary("node-plugins")),
    Image(
        "lab/training-operator", "v1.8.1", ("tools", "build:training-operator"), _binary("training-operator")
    ),
    Image("lab/coredns", "v1.15.0", ("tools", "build:coredns"), _binary("coredns")),
    Image("lab/prometheus", "v2.42.0", ("debian", BASE.step), _prometheus, assembled=base.recipe()),
)
