"""How a cluster's scheduler is started."""

from __future__ import annotations

from pathlib import Path

from lab.nodes import programs
from lab.nodes.cluster_files import ClusterFiles
from lab.nodes.components.flags import api_client
from lab.nodes.kubeconfig import write_kubeconfig
from lab.nodes.pki import CertificateAuthority

NAME = "scheduler"


def command(files: ClusterFiles, authority: CertificateAuthority) -> list[str | Path]:
    """The command line; writes its kubeconfig. Raises FileNotFoundError without the program."""
    kubeconfig = write_kubeconfig(files, authority, NAME, "system:kube-scheduler")
    return [programs.find(files.lab, "kube-scheduler"), *api_client(files, NAME, kubeconfig)]
