"""The Python environments: `python3 lab/bootstrap.py` makes the checkout's .venv in the cache.

Only the standard library is imported here, because nothing else is installed yet. Two folders of the cache
are made, each once for a given set of requirement files:

- `venv-KEY`: the program's and the lab's packages. A virtual environment can't be renamed (its scripts name
  its folder), so it is built where it stays and counts only once its marker is written, as the last thing.
- `python/trainer-KEY`: the trainer's packages (torch: 3 GB to download, 5.5 GB on disk). It lies apart because
  the lab's pods mount it, and because it is installed while the toolchain compiles. It is built in a
  temporary folder and renamed. A .pth file in the environment names it.
- `python/peers-KEY`, only with `--bench`: what benchmarks compare the trainer with. No .pth file names it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

PROJECT = Path(__file__).resolve().parents[1]
if not __package__:  # run as a script: Python then looks for modules beside it, in lab/
    sys.path[0] = str(PROJECT)

from lab.settings import Lab  # noqa: E402

PROGRAM = ("requirements.txt", "lab/requirements.txt")
TRAINER = "trainer/requirements.txt"
PEERS = ("bench/requirements.txt", "bench/torchtune.txt")
OLDEST = (3, 11)
PODS = (3, 11)
"""The Python of the lab's base image (Debian 12's): what the pods' packages must be built for."""
MARKER = "shardyard.json"

if TYPE_CHECKING:  # an old Python, which can't evaluate this, must still get as far as main's message
    Run = Callable[[list[str], dict[str, str]], None]
    """Runs a command with additional environment variables; raises if it fails."""


class BootstrapError(Exception):
    """What is wrong and what to do about it."""


def main() -> int:
    if sys.version_info[:2] < OLDEST:
        print(_too_old(), file=sys.stderr)
        return 2
    _prefer_the_pods_python()
    lab = Lab.from_environment()
    try:
        environment = virtual_environment(lab, PROJECT)
        if {"--trainer", "--bench"} & set(sys.argv[1:]):
            install_trainer(lab, PROJECT)
        if "--bench" in sys.argv[1:]:
            install_peers(lab, PROJECT)
    except (BootstrapError, OSError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    link(PROJECT / ".venv", environment)
    return 0


# The program's and the lab's packages


def virtual_environment(lab: Lab, project: Path, run: Run | None = None) -> Path:
    """The virtual environment for the project's requirement files, made unless it is there.

    Raises BootstrapError if this Python can't make one, CalledProcessError if pip fails.
    """
    folder = lab.cache / f"venv-{environment_key(project)}"
    if (folder / MARKER).exists():
        return folder
    with locked(lab, folder.name):
        if (folder / MARKER).exists():  # made by the process that held the lock
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        _announce(f"Installing Python packages into {folder} (about a minute; once)")
        begin = time.monotonic()
        _make_venv(folder, run or quietly)
        files = [argument for name in PROGRAM for argument in ("-r", str(project / name))]
        install = [
            str(folder / "bin/python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-compile",
            "--require-hashes",
        ]
        (run or quietly)([*install, *files], {})
        _site_packages(folder).joinpath("shardyard-trainer.pth").write_text(
            f"{trainer_folder(lab, project)}\n"
        )
        seconds = round(time.monotonic() - begin, 1)
        _write(folder / MARKER, json.dumps({"python": sys.version, "seconds": seconds}))
        _announce(f"Python packages installed in {seconds:.0f} s")
    return folder


def environment_key(project: Path) -> str:
    """Twelve hex digits that change with any requirement file and with the Python that runs this."""
    digest = hashlib.sha256()
    for name in (*PROGRAM, TRAINER):
        digest.update((project / name).read_bytes() + b"\0")
    digest.update(f"{sys.version}\0{_base_python()}".encode())
    return digest.hexdigest()[:12]


def _make_venv(folder: Path, run: Run) -> None:
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        raise BootstrapError(
            f"{_base_python()} has no ensurepip, so it can't make a virtual environment: on Debian, "
            f"`apt-get install python{sys.version_info[0]}.{sys.version_info[1]}-venv`"
        ) from None
    run([_base_python(), "-m", "venv", str(folder)], {})


def _site_packages(folder: Path) -> Path:
    return folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def _base_python() -> str:
    """The interpreter itself, also when this runs inside a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


# The trainer's packages


def trainer_folder(lab: Lab, project: Path, python: tuple[int, int] | None = None) -> Path:
    """Where the trainer's packages lie for `python` (major, minor; this one's by default)."""
    python = python or sys.version_info[:2]
    key = hashlib.sha256((project / TRAINER).read_bytes()).hexdigest()[:12]
    suffix = "" if python == PODS else "-py{}{}".format(*python)
    return lab.cache / "python" / f"trainer-{key}{suffix}"


def trainer_folders(lab: Lab, project: Path) -> dict[tuple[int, int], Path]:
    """The folders that are needed, by Python version: the pods', and this machine's if it differs."""
    versions = sorted({PODS, sys.version_info[:2]})
    return {version: trainer_folder(lab, project, version) for version in versions}


def install_trainer(lab: Lab, project: Path, run: Run | None = None) -> None:
    """Install the trainer's packages into every folder of `trainer_folders` that isn't there."""
    for version, folder in trainer_folders(lab, project).items():
        if folder.exists():
            continue
        with locked(lab, folder.name):
            if not folder.exists():
                _install_trainer(lab, project, version, folder, run or quietly)


def _install_trainer(lab: Lab, project: Path, version: tuple[int, int], folder: Path, run: Run) -> None:
    temporary = folder.with_name(f".{folder.name}.new")
    unpacking = folder.with_name(f".{folder.name}.tmp")
    for leftover in (temporary, unpacking):
        shutil.rmtree(leftover, ignore_errors=True)
        leftover.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-cache-dir"]
    if version != sys.version_info[:2]:
        command += ["--python-version", "{}.{}".format(*version), "--only-binary", ":all:"]
    command += ["--target", str(temporary), "-r", str(project / TRAINER)]
    # pip unpacks into TMPDIR and then moves: on the same disk that is a rename, not a copy of 5.5 GB.
    # No pip cache: it would keep another 3 GB.
    run(command, {"TMPDIR": str(unpacking)})
    shutil.rmtree(unpacking)
    temporary.rename(folder)


# What benchmarks compare with


def peers_folder(lab: Lab, project: Path) -> Path:
    """Where the peers lie: a folder in it for each requirement file, named like the file."""
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    for name in (TRAINER, *PEERS):
        digest.update((project / name).read_bytes() + b"\0")
    return lab.cache / "python" / f"peers-{digest.hexdigest()[:12]}"


def install_peers(lab: Lab, project: Path, run: Run | None = None) -> None:
    """Install the peers on top of the trainer's packages: the files list only what those lack, so torch is not
    installed a second time, and nothing else sees them."""
    folder = peers_folder(lab, project)
    with locked(lab, folder.name):
        if folder.exists():
            return
        temporary = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(temporary, ignore_errors=True)
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        for name in PEERS:
            target = temporary / Path(name).stem
            target.mkdir(parents=True)
            (run or quietly)([*install, "--target", str(target), "-r", str(project / name)], {})
        temporary.rename(folder)


# Small things


@contextmanager
def locked(lab: Lab, name: str) -> Iterator[None]:
    """Hold a lock of that name. The kernel drops it when its holder ends, however it ends."""
    locks = lab.cache / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _announce(f"Waiting for another process that is at work on {name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def link(path: Path, target: Path) -> None:
    """Make `path` a symbolic link to `target` in one step, replacing an older link.

    Raises BootstrapError if something that isn't a link is in the way.
    """
    if path.is_symlink() and path.readlink() == target:
        return
    if path.exists() and not path.is_symlink():
        raise BootstrapError(f"{path} is in the way and is not a link that this made: move it and run again")
    temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)


def quietly(command: list[str], environment: dict[str, str]) -> None:
    """Run a command whose output is shown only by its own doing (pip says nothing but its errors)."""
    subprocess.run(command, env={**os.environ, **environment}, check=True, stdin=subprocess.DEVNULL)


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.replace(path)


def _prefer_the_pods_python() -> None:
    """Go on as python3.11 if there is one: then one set of the trainer's packages serves here and in the pods."""
    if sys.version_info[:2] == PODS:
        return
    other = shutil.which("python{}.{}".format(*PODS), path=f"{os.environ.get('PATH', '')}:/usr/bin")
    works = other and subprocess.run([other, "-c", "import ensurepip"], capture_output=True).returncode == 0
    if other and works:
        os.execv(other, [other, str(Path(__file__).resolve()), *sys.argv[1:]])


def _too_old() -> str:
    found = ".".join(map(str, sys.version_info[:3]))
    return f"error: Python 3.11 or newer is needed; {sys.executable} is {found}"


def _announce(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
