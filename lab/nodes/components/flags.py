"""Command line flags that several components share."""

from __future__ import annotations

from pathlib import Path

from lab.nodes.cluster_files import ClusterFiles, loopback
from lab.nodes.pki import KeyPair

VERBOSITY = "--v=1"


def tls(pair: KeyPair, certificate_flag: str, key_flag: str) -> list[str]:
    return [f"{certificate_flag}={pair.certificate}", f"{key_flag}={pair.key}"]


def api_client(files: ClusterFiles, name: str, kubeconfig: Path) -> list[str]:
    """Flags of the controller manager and the scheduler: how they reach the API server and are reached."""
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={loopback()}",
        f"--secure-port={files.port(name)}",
        *tls(files.pair(name), "--tls-cert-file", "--tls-private-key-file"),
        "--leader-elect=false",
        "--profiling=false",
        # The default of 20 requests a second makes the pods of a thousand nodes wait for minutes.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        VERBOSITY,
    ]
