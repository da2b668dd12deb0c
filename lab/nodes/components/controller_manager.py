"""How a cluster's controller manager is started."""

from __future__ import annotations

from pathlib import Path

from lab.nodes import programs
from lab.nodes.cluster_files import ClusterFiles
from lab.nodes.components.flags import api_client, tls
from lab.nodes.kubeconfig import write_kubeconfig
from lab.nodes.pki import CertificateAuthority

NAME = "controller-manager"


def command(files: ClusterFiles, authority: CertificateAuthority) -> list[str | Path]:
    """The command line; writes its kubeconfig. Raises FileNotFoundError without the program."""
    kubeconfig = write_kubeconfig(files, authority, NAME, "system:kube-controller-manager")
    return [
        programs.find(files.lab, "kube-controller-manager"),
        *api_client(files, NAME, kubeconfig),
        f"--root-ca-file={authority.certificate}",
        f"--service-account-private-key-file={files.pki / 'service-accounts.key'}",
        *tls(authority.pair, "--cluster-signing-cert-file", "--cluster-signing-key-file"),
        "--use-service-account-credentials=true",
        "--allocate-node-cidrs=false",
        "--pvclaimbinder-sync-period=5s",
        # It makes this folder. The default is one in /usr/libexec, which would outlive the lab.
        f"--flex-volume-plugin-dir={files.folder / 'volume-plugins'}",
    ]
