"""buildah with its own storage and configuration, so that the user's are neither read nor changed.

`prepare` writes a wrapper script `buildah` into <cache>/bin that sets both. Programs that find it on PATH, such as
`pulumi up` when it builds the trainer's image, use the same storage with a plain `buildah build`.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from lab.settings import Lab
from lab.toolchain.build import which_elsewhere
from lab.toolchain.errors import ToolchainError

POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'
"""Signatures are not checked: all images here were built on this machine or are named by digest."""
REGISTRIES = """\
# No registry is searched for a name without a host.
unqualified-search-registries = []

# AWS' public registry is out of reach of the lab. A stack that builds on one of its images gets what was pushed to
# this place instead, so that it can be brought up unchanged.
[[registry]]
prefix = "public.ecr.aws"
location = "{registry}/public.ecr.aws"
insecure = true
"""
STORAGE = """\
[storage]
driver = "{driver}"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""
WRAPPER = """\
#!/bin/sh
# Debian's buildah with the lab's own storage and configuration. Written by lab/images/storage.py.
export CONTAINERS_STORAGE_CONF={folder}/storage.conf
export CONTAINERS_REGISTRIES_CONF={folder}/registries.conf
export CONTAINERS_CONF={folder}/containers.conf
export REGISTRY_AUTH_FILE="${{REGISTRY_AUTH_FILE:-{folder}/auth.json}}"
export BUILDAH_ISOLATION=chroot
unset STORAGE_DRIVER STORAGE_OPTS
command=$1
case "$command" in
  build | bud | build-using-dockerfile | commit | from | pull | push)
    shift
    set -- "$command" --signature-policy {folder}/policy.json "$@" ;;
esac
exec {buildah} "$@"
"""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def folder(lab: Lab) -> Path:
    return lab.cache / "containers"


def buildah(lab: Lab) -> Path:
    """The wrapper script."""
    return lab.bin / "buildah"


def prepare(lab: Lab) -> None:
    """Write configuration and wrapper script, where they differ from the present ones.

    Raises ToolchainError if the machine has no buildah.
    """
    program = which_elsewhere("buildah", lab.bin)
    if program is None:
        raise ToolchainError("buildah is not installed: `apt-get install --no-install-recommends buildah`")
    home = folder(lab)
    home.mkdir(parents=True, exist_ok=True)
    _forget_mounts_before_boot(home)
    registries = REGISTRIES.format(registry=lab.registry)
    for name, text in (("policy.json", POLICY), ("registries.conf", registries), ("containers.conf", "")):
        _write(home / name, text)
    if not (
        home / "auth.json"
    ).exists():  # buildah fails if the file that REGISTRY_AUTH_FILE names is missing
        _write(home / "auth.json", "{}\n", mode=0o600)
    quoted = {"folder": shlex.quote(str(home)), "buildah": shlex.quote(str(program))}
    lab.bin.mkdir(parents=True, exist_ok=True)
    _write(buildah(lab), WRAPPER.format(**quoted), mode=0o755)
    if not (home / "storage.conf").exists():
        _choose_driver(lab, home)


def _choose_driver(lab: Lab, home: Path) -> None:
    """Choose overlay if this machine's kernel and file system support it, otherwise vfs (plain copies)."""
    errors = []
    for driver in ("overlay", "vfs"):
        _write(home / "storage.conf", STORAGE.format(driver=driver, folder=home))
        done = subprocess.run([buildah(lab), "info"], capture_output=True, text=True)
        if done.returncode == 0:
            return
        errors.append(f"{driver}: {done.stderr.strip()}")
        shutil.rmtree(home / "storage", ignore_errors=True)
    (home / "storage.conf").unlink()
    raise ToolchainError("buildah can't use its storage:\n" + "\n".join(errors))


def _forget_mounts_before_boot(home: Path) -> None:
    """Remove buildah's mount counters in `run` after a reboot: the mounts are gone, the counters are not."""
    boot = BOOT_ID.read_text() if BOOT_ID.exists() else ""
    if (home / "boot").exists() and (home / "boot").read_text() != boot:
        shutil.rmtree(home / "run", ignore_errors=True)
    _write(home / "boot", boot)


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    if path.exists() and path.read_text() == text:
        return
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(text)
    temporary.chmod(mode)
    temporary.replace(path)
