"""Put the images into the lab's registry."""

from __future__ import annotations

from lab import registry
from lab.images import build, storage
from lab.images.recipes import IMAGES, Image
from lab.settings import Lab
from lab.toolchain import stamps
from lab.toolchain.commands import Commands, StopSignal
from lab.toolchain.errors import ToolchainError


def push(lab: Lab) -> None:
    """Push every image that the registry has not, or has from an older build.

    Raises ToolchainError if an image was not built or the registry refuses it.
    """
    there = build.stored(lab)
    commands = Commands(lab.logs / "push-images.log", StopSignal())
    for image in IMAGES:
        if not image.pushed:
            continue
        if image.local not in there:
            raise ToolchainError(f"image {image.local} was not built: run `make up` again, which builds it")
        _push(lab, image, there[image.local], commands)


def _push(lab: Lab, image: Image, identity: str, commands: Commands) -> None:
    pushed = _record(lab, image).get(identity)
    if pushed and registry.digest(lab, image.name, image.tag) == pushed:
        return
    answer = lab.state / "tmp" / f"{image.short}.digest"
    answer.parent.mkdir(parents=True, exist_ok=True)
    target = f"docker://{lab.registry}/{image.name}:{image.tag}"
    tool = storage.buildah(lab)
    commands.run([tool, "push", "--tls-verify=false", "--digestfile", answer, image.local, target])
    stamps.Stamp(identity, facts={identity: answer.read_text().strip()}).write(lab, _name(image))


def _record(lab: Lab, image: Image) -> dict[str, str]:
    """Digest in a registry by image id, as the last push gave it."""
    stamp = stamps.read(lab, _name(image))
    return stamp.facts if stamp else {}


def _name(image: Image) -> str:
    return f"pushed-{image.short}"
