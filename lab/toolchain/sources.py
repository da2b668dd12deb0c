"""The slimmed copy of pulumi-kubernetes' Go SDK, against which its provider is built.

The provider needs five of the SDK's packages, but one of them imports a typed package for every version of
every Kubernetes API group: three quarters of the compile time. The copy holds the five, with that one file
replaced by `kinds.go.slim`, and a copied go.mod sends the import there.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.bootstrap import PROJECT
from lab.settings import Lab
from lab.toolchain.commands import Commands
from lab.toolchain.errors import ToolchainError
from lab.toolchain.programs import Program

SDK = "github.com/pulumi/pulumi-kubernetes/sdk/v4"
PACKAGES = ("", "utilities", "yaml/v2", "helm/v4")
"""Folders of the SDK's go/kubernetes that are kept (their own files, not what lies below them)."""
REPLACED = "yaml/v2/kinds.go"


@dataclass(frozen=True)
class SlimCopy:
    folder: Path

    @property
    def modfile(self) -> Path:
        return self.folder / "go.mod"

    @property
    def sdk(self) -> Path:
        return self.folder / "sdk"


def location(lab: Lab, program: Program) -> SlimCopy:
    """Where the copy lies. Per checkout, because its go.mod comes from the checkout's."""
    from lab.toolchain.stamps import digest

    return SlimCopy(lab.cache / "src" / f"{program.name}-{digest([str(PROJECT)])[:8]}")


def prepare(
    lab: Lab, program: Program, go: Path, environment: dict[str, str], commands: Commands
) -> SlimCopy:
    """Download the SDK and make the copy afresh.

    Raises ToolchainError if the SDK no longer has the files that are kept.
    """
    module = module_folder(program, SDK, go, environment, commands)
    copy = location(lab, program)
    shutil.rmtree(copy.folder, ignore_errors=True)
    for package in PACKAGES:
        _copy_files(module / "go/kubernetes" / package, copy.sdk / "go/kubernetes" / package)
    replaced = copy.sdk / "go/kubernetes" / REPLACED
    if not replaced.exists():
        raise ToolchainError(
            f"{SDK} has no {REPLACED} any more: {program.folder}/kinds.go.slim replaces nothing"
        )
    shutil.copyfile(program.folder / "kinds.go.slim", replaced)
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(module / name, copy.sdk / name)
        shutil.copyfile(program.folder / name, copy.folder / name)
    with copy.modfile.open("a") as file:
        file.write(f"\nreplace {SDK} => {copy.sdk}\n")
    return copy


def module_folder(
    program: Program, module: str, go: Path, environment: dict[str, str], commands: Commands
) -> Path:
    """Where a module that the program's go.mod requires lies unpacked; downloaded if need be."""
    lines = commands.run([go, "mod", "download", "-json", module], environment, program.folder)
    return Path(json.loads("\n".join(lines))["Dir"])


def _copy_files(source: Path, target: Path) -> None:
    """The files of one folder, not of those below it; written anew, so that a read-only cache does not matter."""
    target.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        if path.is_file() and not path.name.endswith("_test.go"):
            shutil.copyfile(path, target / path.name)
