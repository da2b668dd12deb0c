"""Build images with buildah, unless the one in storage was built from the same inputs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from lab.images import base, storage
from lab.images.recipes import BASE, Image
from lab.settings import Lab
from lab.toolchain import stamps
from lab.toolchain.commands import Commands

LABEL = "shardyard.inputs"
"""Label of an image: the digest of its inputs."""


def outdated(lab: Lab, images: Iterable[Image]) -> list[Image]:
    """The images that storage lacks or has from other inputs, found with one call of buildah."""
    there = stored(lab)
    return [image for image in images if not _is_fresh(lab, image, there)]


def stored(lab: Lab) -> dict[str, str]:
    """Image id by name, for every image in the lab's storage."""
    if not storage.buildah(lab).exists():
        return {}
    done = subprocess.run(
        [storage.buildah(lab), "images", "--json", "--no-trunc"], capture_output=True, text=True
    )
    rows = json.loads(done.stdout or "[]") if done.returncode == 0 else []
    return {name: _identity(row["id"]) for row in rows or [] for name in row.get("names") or []}


def _is_fresh(lab: Lab, image: Image, there: dict[str, str]) -> bool:
    stamp = stamps.read(lab, _stamp(image))
    if stamp is None or there.get(image.local) != stamp.facts.get("id"):
        return False
    if image.pushed and not (exported(lab, image) / "manifest.json").exists():
        return False
    try:
        return stamp.inputs == image.inputs(lab)
    except FileNotFoundError:
        return False


def build(lab: Lab, image: Image, commands: Commands) -> bool:
    """Build the image unless it is up to date. Returns whether it was built.

    Raises ToolchainError if buildah (or mmdebstrap, for the base) fails.
    """
    storage.prepare(lab)
    there = stored(lab)
    if _is_fresh(lab, image, there):
        return False
    context = lab.cache / "tmp" / f"image-{image.short}"
    if context.exists():  # left by a build that was killed, as its container may be, with a mount
        subprocess.run([storage.buildah(lab), "rm", "--all"], capture_output=True)
        shutil.rmtree(context)
    context.mkdir(parents=True)
    for path, source in image.files(lab).items():
        _place(source, context / path)
    if image == BASE:
        base.assemble(lab, context / "base.tar", commands)
    inputs = image.inputs(lab)
    identity = context.with_name(f"{context.name}.id")
    command: list[str | Path] = [storage.buildah(lab), "build", "--pull=never", "--layers=false"]
    command += ["--timestamp", base.EPOCH, "--label", f"{LABEL}={inputs}", "--iidfile", identity]
    commands.run([*command, "-t", image.local, "-f", image.containerfile, context])
    made = _identity(identity.read_text())
    if image.pushed:
        _export(lab, image, commands)
    stamps.Stamp(inputs, facts={"id": made}).write(lab, _stamp(image))
    identity.unlink()
    shutil.rmtree(context)
    old = there.get(image.local)
    if old and old != made:  # it has no name now; images built on it keep their references to its layers
        subprocess.run([storage.buildah(lab), "rmi", old], capture_output=True)
    return True


def _identity(text: str) -> str:
    """An image id without "sha256:", which buildah writes in some places only."""
    return text.strip().removeprefix("sha256:")


def exported(lab: Lab, image: Image) -> Path:
    """The folder of its manifest and uncompressed layers, for `upload`."""
    return lab.cache / "images" / image.short


def _export(lab: Lab, image: Image, commands: Commands) -> None:
    target = exported(lab, image)
    temporary = target.with_name(f".{target.name}.new")
    for folder in (temporary, target):
        shutil.rmtree(folder, ignore_errors=True)
    temporary.parent.mkdir(parents=True, exist_ok=True)
    commands.run([storage.buildah(lab), "push", "--disable-compression", image.local, f"dir:{temporary}"])
    temporary.rename(target)


def _place(source: Path, target: Path) -> None:
    """Put a file or folder into the build context: hard links on one file system, copies otherwise."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, copy_function=_link_or_copy)
    else:
        _link_or_copy(str(source), str(target))


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def _stamp(image: Image) -> str:
    return image.step.replace(":", "-")
