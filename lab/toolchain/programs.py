"""The programs that are built from Go modules: one entry each.

A module's folder pins everything (go.mod, go.sum). What is built from it, under which names, with which flags
and in which version stands here; how, in build.py. To add a program, add its folder and an entry to PROGRAMS.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MODULES = Path(__file__).resolve().parent
KUBERNETES = "v1.34.4"
PULUMI = "v3.274.1"
LANGUAGE_HOST_MODULE = "github.com/pulumi/pulumi/sdk/v3"
SMALLER_BINARY = ("-s", "-w")
UNOPTIMISED = "all=-N -l"
"""No optimisation passes: plugins wait for servers, they don't compute."""


@dataclass(frozen=True)
class Program:
    """One binary and the names that it is called by."""

    name: str
    """Also its module's folder, unless `module` says otherwise."""
    package: str
    """What `go build` is asked for: "." is the folder's own main."""
    output: str
    cpu_seconds: float
    """User and system time of a cold build on the machine of docs/benchmarks.md, shared compilations included."""
    aliases: tuple[str, ...] = ()
    """Further names of the same binary (symbolic links)."""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """How to ask a program on PATH for its version. Empty: one on PATH is never taken."""
    version: str = ""
    """What the answer must contain, as a whole word."""
    beside: tuple[tuple[str, str], ...] = ()
    """(module, path in it): files of a module that must lie beside the binary, executable."""
    ldflags: tuple[str, ...] = ()
    gcflags: str = ""
    slim: bool = False
    """Built against slimmed copies of modules (sources.py)."""

    @property
    def folder(self) -> Path:
        return MODULES / self.name

    @property
    def names(self) -> tuple[str, ...]:
        """Every command in <cache>/bin that this program provides. Behind aliases the binary is none itself."""
        return (*(self.aliases or (self.output,)), *(Path(path).name for _, path in self.beside))


def _kubernetes_version_flags() -> tuple[str, ...]:
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    base = "k8s.io/component-base/version"
    return (
        *(f"-X {package}.gitVersion={KUBERNETES}" for package in (base, "k8s.io/client-go/pkg/version")),
        f"-X {base}.gitMajor={major}",
        f"-X {base}.gitMinor={minor}",
    )


def plugin_version(package: str) -> str:
    """The plugin's version that an installed package, such as pulumi-aws, asks the engine for."""
    return importlib.metadata.version(package)


def programs() -> tuple[Program, ...]:
    """All programs, the longest build first: the last one to start should be a short one."""
    return (
        Program(
            "kubernetes",
            package=".",
            output="kubernetes",
            aliases=(
                "kube-apiserver",
                "kube-controller-manager",
                "kube-proxy",
                "kube-scheduler",
                "kubectl",
                "kubelet",
            ),
            versions={
                "kube-apiserver": ("--version",),
                "kube-controller-manager": ("--version",),
                "kube-proxy": ("--version",),
                "kube-scheduler": ("--version",),
                "kubectl": ("version", "--client"),
                "kubelet": ("--version",),
            },
            version=KUBERNETES,
            ldflags=(*SMALLER_BINARY, *_kubernetes_version_flags()),
            cpu_seconds=800,
        ),
        Program(
            "pulumi",
            package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
            output="pulumi",
            versions={"pulumi": ("version",)},
            version=PULUMI,
            ldflags=(
                *SMALLER_BINARY,
                f"-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={PULUMI}",
            ),
            cpu_seconds=500,
        ),
        Program(
            "pulumi-aws",
            package=".",
            output="pulumi-resource-aws",
            ldflags=(*SMALLER_BINARY, f"-X main.version={plugin_version('pulumi-aws')}"),
            gcflags=UNOPTIMISED,
            slim=True,
            cpu_seconds=480,
        ),
        Program(
            "pulumi-kubernetes",
            package=".",
            output="pulumi-resource-kubernetes",
            ldflags=(*SMALLER_BINARY, f"-X main.version={plugin_version('pulumi-kubernetes')}"),
            gcflags=UNOPTIMISED,
            slim=True,
            cpu_seconds=290,
        ),
        Program(
            "kwok",
            package="sigs.k8s.io/kwok/cmd/kwok",
            output="kwok",
            versions={"kwok": ("--version",)},
            version="v0.8.0",
            ldflags=SMALLER_BINARY,
            cpu_seconds=180,
        ),
        Program(
            "training-operator",
            package="github.com/kubeflow/training-operator/cmd/training-operator.v1",
            output="training-operator",
            ldflags=SMALLER_BINARY,
            cpu_seconds=160,
        ),
        Program(
            "coredns",
            package=".",
            output="coredns",
            ldflags=SMALLER_BINARY,
            cpu_seconds=150,
        ),
        Program(
            "node-plugins",
            package=".",
            output="node-plugins",
            ldflags=SMALLER_BINARY,
            cpu_seconds=40,
        ),
        Program(
            "language-python",
            package=f"{LANGUAGE_HOST_MODULE}/python/cmd/pulumi-language-python",
            output="pulumi-language-python",
            beside=(
                (LANGUAGE_HOST_MODULE, "python/cmd/pulumi-language-python-exec"),
                (LANGUAGE_HOST_MODULE, "python/dist/pulumi-resource-pulumi-python"),
            ),
            ldflags=SMALLER_BINARY,
            cpu_seconds=40,
        ),
    )
