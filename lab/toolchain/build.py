"""Build one program, or find that it needn't be built.

In this order: it is in the cache as stamped; it is in the cache without a stamp (a build was killed between
the two) and says itself that it was linked from the pinned modules; PATH has it in the right version; build it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.bootstrap import link
from lab.settings import Lab
from lab.toolchain import go, sources, stamps
from lab.toolchain.commands import Commands
from lab.toolchain.programs import Program

ASK_SECONDS = 20
PackageProgress = Callable[[int, int], None]
"""Called with (packages compiled, packages in all)."""


def inputs(program: Program) -> str:
    """A digest of all that decides what the binary does: the module's files, the package and the flags."""
    flags = [*program.ldflags, program.gcflags, program.package, *program.names]
    copies = [sources.maker_digest(program)] if program.slim else []
    return stamps.digest([stamps.folder_digest(program.folder), *flags, *copies])


def is_fresh(lab: Lab, program: Program) -> bool:
    """Whether the cache holds the program as it should be."""
    names_there = all((lab.bin / name).exists() for name in program.names)
    return names_there and stamps.fresh(lab, program.name, inputs(program))


# Not building


def take_from_path(lab: Lab, program: Program) -> bool:
    """Link to programs on PATH if each of them is there in the right version.

    A command that comes along with others' (kubectl in the Kubernetes binary) is not taken alone.
    """
    found = {}
    for name, question in program.versions.items():
        path = which_elsewhere(name, lab.bin)
        if path is None or not answers(path, question, program.version):
            return False
        found[name] = path
    if not found:
        return False
    lab.bin.mkdir(parents=True, exist_ok=True)
    for name, path in found.items():
        _clear(lab.bin / name)
        link(lab.bin / name, path)
    _stamp(lab, program, inputs(program), origin="PATH")
    return True


def which_elsewhere(name: str, ours: Path) -> Path | None:
    """The command of that name on PATH, the lab's own folder left out."""
    folders = [part for part in os.environ.get("PATH", "").split(":") if part]
    others = [part for part in folders if Path(part).resolve() != ours.resolve()]
    found = shutil.which(name, path=":".join(others))
    return Path(found).absolute() if found else None


def answers(path: Path, question: tuple[str, ...], version: str) -> bool:
    """Whether the program answers `question` with exactly that version somewhere."""
    try:
        done = subprocess.run(
            [path, *question], capture_output=True, text=True, timeout=ASK_SECONDS, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and names_version(done.stdout + done.stderr, version)


def names_version(text: str, version: str) -> bool:
    """`version` as a whole word: v1.34.4 is neither in v1.34.40 nor in v1.34.4-rc.1."""
    return re.search(rf"(?<![\w.]){re.escape(version)}(?![\w.+-])", text) is not None


def adopt(lab: Lab, program: Program, tool: Path) -> bool:
    """Stamp a binary that lies in the cache without a stamp, if it was built from just this.

    The modules that it was linked from, hashes included, must all be those of go.sum; what the module's own
    folder holds leaves no such trace in a binary, so the binary must be newer than that.
    """
    binary = lab.bin / program.output
    if not binary.is_file() or not all((lab.bin / name).exists() for name in program.names):
        return False
    newest = max(path.stat().st_mtime for path in program.folder.rglob("*") if path.is_file())
    modules = go.build_info(tool, binary, go.environment(lab))
    if binary.stat().st_mtime < newest or not modules:
        return False
    known = _sums(program)
    if any(known.get(module) != checksum for module, checksum in modules.items() if checksum):
        return False
    _stamp(lab, program, inputs(program), origin="adopted")
    return True


def _sums(program: Program) -> dict[str, str]:
    rows = (line.split() for line in (program.folder / "go.sum").read_text().splitlines())
    return {f"{module} {version}": checksum for module, version, checksum in rows}


# Building


@dataclass(frozen=True)
class Fetched:
    """What `fetch` leaves for `build`."""

    packages: frozenset[str]
    """What is to be compiled. The standard library is not counted: every program shares it."""
    modfile: Path | None


def fetch(lab: Lab, program: Program, tool: Path, commands: Commands) -> Fetched:
    """Download the modules that the program needs, and no others, while something else compiles."""
    environment = go.environment(lab)
    Path(environment["GOTMPDIR"]).mkdir(parents=True, exist_ok=True)
    modfile = None
    if program.slim:
        modfile = sources.prepare(lab, program, tool, environment, commands).modfile
    listing: list[str | Path] = [tool, "list", *_modfile(modfile), "-deps"]
    listing += ["-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", program.package]
    lines = commands.run(listing, environment, program.folder)
    return Fetched(frozenset(filter(None, lines)), modfile)


def build(
    lab: Lab, program: Program, tool: Path, fetched: Fetched, commands: Commands, progress: PackageProgress
) -> None:
    """Compile, link, and put the result into <cache>/bin in one step."""
    environment = go.environment(lab)
    from_inputs = inputs(program)  # as of now: an edit during the build must not pass as built
    temporary = lab.cache / "tmp" / program.name
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    compiled: set[str] = set()

    def count(line: str) -> None:
        if line in fetched.packages:  # -v prints the import path of each as it is compiled
            compiled.add(line)
            progress(len(compiled), len(fetched.packages))

    binary = temporary / program.output
    command: list[str | Path] = [tool, "build", "-v", *_modfile(fetched.modfile)]
    command += [f"-ldflags={' '.join(program.ldflags)}"]
    command += [f"-gcflags={program.gcflags}"] if program.gcflags else []
    commands.run([*command, "-o", binary, program.package], environment, program.folder, count)
    for module, path in program.beside:
        source = sources.module_folder(program, module, tool, environment, commands) / path
        shutil.copyfile(source, temporary / source.name)
        (temporary / source.name).chmod(0o755)
    lab.bin.mkdir(parents=True, exist_ok=True)
    for made in temporary.iterdir():
        made.replace(lab.bin / made.name)
    for alias in program.aliases:
        _clear(lab.bin / alias)
        link(lab.bin / alias, Path(program.output))
    shutil.rmtree(temporary)
    _stamp(lab, program, from_inputs, origin="built")


def _modfile(path: Path | None) -> list[str]:
    return [f"-modfile={path}"] if path else []


def _clear(path: Path) -> None:
    """Make way for a link where an earlier kind of build left a file."""
    if path.exists() and not path.is_symlink():
        path.unlink()


def _stamp(lab: Lab, program: Program, from_inputs: str, origin: str) -> None:
    files = [lab.bin / name for name in program.names if (lab.bin / name).exists()]
    distinct = {path.resolve(): path for path in reversed(files)}
    outputs = [stamps.Output.of(path) for path in distinct.values()]
    stamps.Stamp(from_inputs, outputs, origin).write(lab, program.name)
