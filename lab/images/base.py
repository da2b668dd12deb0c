"""The root file system of the base image: Debian, assembled by mmdebstrap.

Its packages come from the mirrors that this machine's apt is configured with; apt checks the archive's signatures.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from lab.settings import Lab
from lab.toolchain import debian
from lab.toolchain.commands import Commands

SUITE = "bookworm"
"""Debian 12: its python3 is 3.11, for which the trainer's packages are installed (bootstrap.PODS)."""
PACKAGES = (
    "ca-certificates",
    "iproute2",  # `ip` and `ss` in a pod's shell
    "libgomp1",  # torch and numpy
    "libstdc++6",
    "procps",  # `ps` and `top`
    "python3",
)
LEFT_OUT = (
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
    "/usr/share/lintian/*",
)
KEPT = "/usr/share/doc/*/copyright"
MARK = "opt/shardyard/packages-from-node"
"""trainer/Dockerfile installs no packages on a base that has this file: the lab's device plugin mounts them."""
EPOCH = "1700000000"
"""Every file's latest time: the same packages give the same bytes (SOURCE_DATE_EPOCH)."""


def recipe() -> tuple[str, ...]:
    """All that decides the image's content, except the archive's state on the day of the build."""
    return (SUITE, *PACKAGES, *LEFT_OUT, KEPT, MARK, EPOCH)


def bookworm(sources: Iterable[debian.Source], codename: str) -> list[str]:
    """Lines of sources.list for Debian 12, on the mirrors of `sources`, which may name another Debian release."""
    lines = {
        debian.Source(s.uri, s.suite.replace(codename, SUITE), ("main",), s.signed_by).line()
        for s in sources
        if s.suite.startswith(codename) and "backports" not in s.suite
    }
    return sorted(lines)


def assemble(lab: Lab, target: Path, commands: Commands) -> None:
    """Write the root file system as a tar file.

    Raises ToolchainError if apt has no Debian or mmdebstrap fails.
    """
    codename, _ = debian.release()
    listed = target.with_name("sources.list")
    listed.write_text("\n".join(bookworm(debian.sources(commands), codename)) + "\n")
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    # In namespaces of its own, so that no process and no mount (/proc in the new root) outlives it when it is
    # killed, and the folder can be removed safely.
    namespaces = (
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
        if os.geteuid() == 0
        else []
    )
    commands.run(
        [
            *namespaces,
            "mmdebstrap",
            "--variant=essential",
            "--mode=auto",
            f"--include={','.join(PACKAGES)}",
            *options,
            f"--dpkgopt=path-include={KEPT}",
            "--aptopt=Apt::Install-Recommends false",
            f'--customize-hook=mkdir -p "$1/{Path(MARK).parent}" && touch "$1/{MARK}"',
            SUITE,
            target,
            listed,
        ],
        {"SOURCE_DATE_EPOCH": EPOCH, "TMPDIR": str(target.parent), **debian.QUIET},
    )
