"""How a cluster's etcd is started: one member, on loopback, with TLS of its own certificate authority."""

from __future__ import annotations

from pathlib import Path

from lab.nodes import programs
from lab.nodes.cluster_files import ClusterFiles, loopback
from lab.nodes.pki import CertificateAuthority


def command(files: ClusterFiles, authority: CertificateAuthority) -> list[str | Path]:
    """The command line; writes the server's certificate. Raises FileNotFoundError without the program."""
    address = str(loopback())
    client, peer = (f"https://{address}:{files.port(name)}" for name in ("etcd", "etcd-peer"))
    server = authority.issue(files.pair("etcd"), "etcd", addresses=(address, "localhost"))
    return [
        programs.find(files.lab, "etcd"),
        "--name=main",
        f"--data-dir={files.folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=main={peer}",
        "--client-cert-auth",
        f"--trusted-ca-file={authority.certificate}",
        f"--cert-file={server.certificate}",
        f"--key-file={server.key}",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={authority.certificate}",
        f"--peer-cert-file={server.certificate}",
        f"--peer-key-file={server.key}",
        "--logger=zap",
        "--log-level=warn",
        "--auto-compaction-retention=1",
    ]
