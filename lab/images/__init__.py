"""The container images of the local stack: built here, because no public registry can be reached.

`ensure` builds those whose inputs have changed, `push` uploads them to the lab's registry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from lab.settings import Lab

__all__ = ["ensure", "push"]


def ensure(lab: Lab, console: Console) -> None:
    """Build the images that are missing or outdated (the toolchain's programs must be there).

    Raises ToolchainError with the end of the log if a build fails.
    """
    from lab.toolchain.plan import ensure_images

    ensure_images(lab, console)


def push(lab: Lab) -> None:
    """Push the images that the lab's registry lacks. The registry must be running.

    Raises ToolchainError if an image was not built or a push fails.
    """
    from lab.images.upload import upload

    upload(lab)
