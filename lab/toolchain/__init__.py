"""The local stack's programs: built from pinned Go modules, unpacked from Debian, assembled into images.

`ensure` is the one entry. Everything lands in the cache, is made once, and is made again only when what it
is made from has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.toolchain.errors import ToolchainError

if TYPE_CHECKING:
    from rich.console import Console

    from lab.settings import Lab

__all__ = ["ToolchainError", "ensure"]


def ensure(lab: Lab, console: Console, *, keep_go_caches: bool = False) -> None:
    """Make whatever is missing: Python packages, programs, Debian's daemons, images. Blocks until done.

    Where everything is there it takes a fraction of a second. `keep_go_caches` leaves Go's module and build
    caches (15 GB) for somebody who works on the modules. Raises ToolchainError with what went wrong, the
    last lines of the log, and where the rest of it is.
    """
    from lab.toolchain.plan import ensure as carry_out

    carry_out(lab, console, keep_go_caches=keep_go_caches)
