"""What the local stack takes from Debian.

Daemons (etcd, containerd, Prometheus, the registry) are unpacked into <cache>/debian and not installed: a
package's maintainer scripts would add users and start services. Plain tools that hold no daemon are installed
with apt-get, only those that are missing, and it is said before it is done.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.bootstrap import link
from lab.settings import Lab
from lab.toolchain import stamps
from lab.toolchain.commands import Commands
from lab.toolchain.errors import ToolchainError

STAMP = "debian"
TOOLS = {
    "buildah": "buildah",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "iptables": "iptables",
    "mmdebstrap": "mmdebstrap",
    "mount": "mount",
    "newuidmap": "uidmap",
    "nsenter": "util-linux",
}
"""Command → the package that has it. kubelet and kube-proxy call the network ones on real nodes."""
LIBRARIES = {"libseccomp.so.2": "libseccomp2"}
"""Shared library that an unpacked program (runc) is linked with → its package."""
DAEMONS = (
    "containerd",
    "containernetworking-plugins",
    "docker-registry",
    "etcd-server",
    "prometheus",
    "runc",
)
PAGES = (  # what Prometheus' own pages load: scripts and fonts, packaged apart
    "fonts-glyphicons-halflings",
    "libjs-bootstrap4",
    "libjs-eonasdan-bootstrap-datetimepicker",
    "libjs-jquery",
    "libjs-jquery-hotkeys",
    "libjs-moment",
    "libjs-moment-timezone",
    "libjs-mustache",
    "libjs-popper.js",
    "libjs-rickshaw",
    "libjs-d3",
)
PRUNED = ("usr/share/doc", "usr/share/man", "usr/share/javascript/moment-timezone/data")
"""Not kept: 220 MB of the 300 that are unpacked."""
COMMANDS = (
    "usr/bin/containerd",
    "usr/bin/containerd-shim-runc-v2",
    "usr/bin/ctr",
    "usr/bin/docker-registry",
    "usr/bin/etcd",
    "usr/bin/prometheus",
    "usr/bin/promtool",
    "usr/sbin/runc",
)
"""Linked into <cache>/bin."""
PATH_OF_ROOT = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where some of the tools lie; not on everybody's PATH."""
APT = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Use-Pty=0")
QUIET = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}


def root(lab: Lab) -> Path:
    """Where Debian's daemons lie unpacked, as a root folder would."""
    return lab.cache / "debian"


def cni_plugins(lab: Lab) -> Path:
    """The folder of CNI plugin binaries (bridge, host-local, portmap, …)."""
    return root(lab) / "usr/lib/cni"


# Which Debian


@cache
def release() -> tuple[str, str]:
    """(codename, version) of the Debian that runs, such as ("bookworm", "12").

    Raises ToolchainError where there is no apt.
    """
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise ToolchainError(
            "this machine has no apt-get: the local stack takes etcd, containerd, runc, the CNI plugins, Prometheus "
            "and the image registry from Debian's packages. Run it on Debian 12, or in a Debian 12 virtual machine"
        )
    facts = parse_os_release(Path("/etc/os-release").read_text())
    return facts.get("VERSION_CODENAME", ""), facts.get("VERSION_ID", "")


def parse_os_release(text: str) -> dict[str, str]:
    """os-release(5): NAME=value lines, values perhaps in quotes."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name: value.strip("\"'") for name, _, value in pairs}


@dataclass(frozen=True)
class Source:
    """One suite that apt is configured with, Debian's own."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str

    def line(self) -> str:
        """As in sources.list(5)."""
        options = f"[signed-by={self.signed_by}] " if self.signed_by else ""
        return f"deb {options}{self.uri} {self.suite} {' '.join(self.components)}"


def parse_index_targets(text: str) -> list[Source]:
    """Debian's own suites among `apt-get indextargets`, each once, with its components."""
    components: dict[tuple[str, str, str], list[str]] = {}
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if fields.get("Origin") != "Debian" or fields.get("Created-By") != "Packages":
            continue
        key = (fields["Repo-URI"], fields["Release"], fields.get("Signed-By", ""))
        if fields["Component"] not in components.setdefault(key, []):
            components[key].append(fields["Component"])
    return [
        Source(uri, suite, tuple(found), signed_by) for (uri, suite, signed_by), found in components.items()
    ]


def sources(commands: Commands) -> list[Source]:
    """Where this machine's apt takes Debian from: mirrors are the machine's business, none is named here.

    Raises ToolchainError if apt knows no Debian suite.
    """
    found = parse_index_targets("\n".join(commands.run(["apt-get", "indextargets"], QUIET)))
    if not found:
        commands.run([*APT, "update"], QUIET)
        found = parse_index_targets("\n".join(commands.run(["apt-get", "indextargets"], QUIET)))
    if not found:
        raise ToolchainError(
            "apt is configured with no Debian suite, and the images are assembled from Debian's packages: "
            "add Debian 12 to /etc/apt/sources.list.d"
        )
    return found


# Tools


def missing_packages(tools: Mapping[str, str] = TOOLS, libraries: Mapping[str, str] = LIBRARIES) -> list[str]:
    """The packages of those tools and libraries that the machine lacks, each once, in order."""
    path = f"{os.environ.get('PATH', '')}:{PATH_OF_ROOT}"
    lacking = [package for command, package in tools.items() if not shutil.which(command, path=path)]
    known = _known_libraries() if libraries else ""
    lacking += [package for library, package in libraries.items() if library not in known]
    return sorted(set(lacking))


def install_tools(packages: Iterable[str], commands: Commands) -> None:
    """apt-get install, without recommended packages.

    Raises ToolchainError, with the command to type, when this isn't root's to do.
    """
    release()
    wanted = list(packages)
    if os.geteuid() != 0:
        listed = " ".join(wanted)
        raise ToolchainError(
            f"these tools are missing, and only root can install them: {listed}. "
            f"Run `sudo apt-get install --no-install-recommends {listed}`, then this again"
        )
    install = [*APT, "install", "--no-install-recommends", *wanted]
    if not _lists_known(wanted):
        commands.run([*APT, "update"], QUIET)
    commands.run(install, QUIET)


# Daemons


def inputs() -> str:
    """Changes with the list of packages and with the Debian that they come from."""
    return stamps.digest([*release(), *DAEMONS, *PAGES, *PRUNED, *COMMANDS])


def is_fresh(lab: Lab) -> bool:
    return stamps.fresh(lab, STAMP, inputs()) and all(
        (lab.bin / Path(path).name).exists() for path in COMMANDS
    )


def unpack(lab: Lab, commands: Commands) -> None:
    """Download the packages (apt checks their signatures) and unpack them, without running a script of theirs."""
    release()
    target, temporary = root(lab), lab.cache / ".debian.new"
    packages = lab.cache / "tmp" / "packages"
    for folder in (temporary, packages):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    wanted = (*DAEMONS, *PAGES)
    if not _lists_known(wanted):
        commands.run([*APT, "update"], QUIET)
    # As root apt would download as its own user, who can't write here.
    commands.run([*APT, "-o", "APT::Sandbox::User=root", "download", *wanted], QUIET, packages)
    for package in sorted(packages.glob("*.deb")):
        commands.run(["dpkg-deb", "-x", package, temporary])
    shutil.rmtree(packages)
    for path in PRUNED:
        shutil.rmtree(temporary / path, ignore_errors=True)
    _replace_folder(temporary, target)
    lab.bin.mkdir(parents=True, exist_ok=True)
    for path in COMMANDS:
        link(lab.bin / Path(path).name, target / path)
    outputs = [stamps.Output.of(target / path) for path in COMMANDS]
    stamps.Stamp(inputs(), outputs).write(lab, STAMP)


def _replace_folder(new: Path, target: Path) -> None:
    """Programs that run from the old folder keep their open files; a kill in between only means unpacking again."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _lists_known(packages: Iterable[str]) -> bool:
    """Whether apt's package lists are there and know all of these (a fresh container's are empty)."""
    done = subprocess.run(["apt-cache", "show", "--no-all-versions", *packages], capture_output=True)
    return done.returncode == 0 and bool(done.stdout)


def _known_libraries() -> str:
    path = f"{os.environ.get('PATH', '')}:{PATH_OF_ROOT}"
    ldconfig = shutil.which("ldconfig", path=path)
    return subprocess.run([ldconfig, "-p"], capture_output=True, text=True).stdout if ldconfig else ""
