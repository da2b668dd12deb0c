"""The slimmed copy of pulumi-kubernetes' Go SDK, against which its provider is built.

The provider needs five of the SDK's packages, but one of them imports a typed package for every version of every
Kubernetes API group: three quarters of the compile time. The copy holds the five, with that one file replaced by
`kinds.go.slim`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from lab.toolchain.copying import copy_files
from lab.toolchain.errors import ToolchainError

SDK = "github.com/pulumi/pulumi-kubernetes/sdk/v4"
PACKAGES = ("", "utilities", "yaml/v2", "helm/v4")
"""Folders of the SDK's go/kubernetes that are kept (their own files, not what is below them)."""
REPLACED = "yaml/v2/kinds.go"


def copy(download: Callable[[str], Path], target: Path, program: Path) -> dict[str, Path]:
    """Make the copy below `target`. Raises ToolchainError if the SDK no longer has the file that is replaced."""
    module, sdk = download(SDK), target / "sdk"
    for package in PACKAGES:
        copy_files(module / "go/kubernetes" / package, sdk / "go/kubernetes" / package)
    replaced = sdk / "go/kubernetes" / REPLACED
    if not replaced.exists():
        raise ToolchainError(f"{SDK} has no {REPLACED} any more: {program}/kinds.go.slim replaces nothing")
    shutil.copyfile(program / "kinds.go.slim", replaced)
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(module / name, sdk / name)
    return {SDK: sdk}
