"""Slimmed copies of vendors' modules, against which two of the plugins are built.

Both vendors' modules hold far more than the local stack has use for, and compiling it would take an hour: typed
packages for every version of every Kubernetes API, clients for every service of AWS. A copy leaves that out, and a
copied go.mod sends the imports there. What is left out and what is changed stands in the module's own file
(kubernetes_sdk.py, aws_provider.py) with the reason for each change.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.bootstrap import PROJECT
from lab.settings import Lab
from lab.toolchain import aws_provider, kubernetes_sdk
from lab.toolchain.commands import Commands
from lab.toolchain.programs import Program
from lab.toolchain.stamps import digest

Download = Callable[[str], Path]
"""The folder of a module that the program's go.mod requires, downloaded and unpacked. Argument: its path."""
MAKERS: dict[str, Callable[[Download, Path, Path], dict[str, Path]]] = {
    "pulumi-aws": aws_provider.copy,
    "pulumi-kubernetes": kubernetes_sdk.copy,
}
"""By program: makes the copies in a folder, given the program's own, and returns module path → copy."""


@dataclass(frozen=True)
class SlimCopy:
    folder: Path

    @property
    def modfile(self) -> Path:
        return self.folder / "go.mod"


def location(lab: Lab, program: Program) -> SlimCopy:
    """Where the copies of a program's modules are. Per checkout, because go.mod comes from the checkout's."""
    return SlimCopy(lab.cache / "src" / f"{program.name}-{digest([str(PROJECT)])[:8]}")


def maker_digest(program: Program) -> str:
    """Changes with the code that makes the copies."""
    return digest([Path(MAKERS[program.name].__code__.co_filename).read_bytes()])


def prepare(
    lab: Lab, program: Program, go: Path, environment: dict[str, str], commands: Commands
) -> SlimCopy:
    """Download the modules and make the copies afresh.

    The originals are deleted from Go's cache then: nothing is compiled from them, and terraform-provider-aws alone
    is 430 MB. Raises ToolchainError if a module no longer has what is kept or changed.
    """
    copy = location(lab, program)
    shutil.rmtree(copy.folder, ignore_errors=True)
    copy.folder.mkdir(parents=True)
    originals: list[Path] = []

    def download(module: str) -> Path:
        facts = module_facts(program, module, go, environment, commands)
        originals.extend([Path(facts["Dir"]), Path(facts["Zip"])])
        return Path(facts["Dir"])

    replaced = MAKERS[program.name](download, copy.folder, program.folder)
    shutil.copyfile(program.folder / "go.sum", copy.folder / "go.sum")
    copy.modfile.write_text(sent_to((program.folder / "go.mod").read_text(), replaced))
    for original in originals:
        shutil.rmtree(original, ignore_errors=True) if original.is_dir() else original.unlink(missing_ok=True)
    return copy


def sent_to(text: str, copies: Mapping[str, Path]) -> str:
    """go.mod with the modules replaced by their copies, whatever replaced them before."""
    kept = [
        line for line in text.splitlines() if not any(f"replace {module} =>" in line for module in copies)
    ]
    return "\n".join([*kept, *(f"replace {module} => {folder}" for module, folder in copies.items())]) + "\n"


def module_folder(
    program: Program, module: str, go: Path, environment: dict[str, str], commands: Commands
) -> Path:
    """Where a module that the program's go.mod requires is unpacked; downloaded if need be."""
    return Path(module_facts(program, module, go, environment, commands)["Dir"])


def module_facts(
    program: Program, module: str, go: Path, environment: dict[str, str], commands: Commands
) -> dict[str, str]:
    """What `go mod download -json` says of it: Dir, Zip, Version, Sum."""
    lines = commands.run([go, "mod", "download", "-json", module], environment, program.folder)
    facts: dict[str, str] = json.loads("\n".join(lines))
    return facts
