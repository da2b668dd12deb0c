"""Kubeconfig files with a client certificate in them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from lab.nodes.cluster_files import ClusterFiles
from lab.nodes.pki import NO_GROUP, CertificateAuthority, KeyPair

ADMIN_GROUP = "system:masters"
"""The API server allows its members everything."""


def write_kubeconfig(
    files: ClusterFiles, authority: CertificateAuthority, name: str, user: str, group: str = NO_GROUP
) -> Path:
    """Issue a client certificate for `user` and write a kubeconfig with it; returns its path."""
    pair = authority.issue(files.pair(name), user, group)
    config = kubeconfig(files.name, files.url, authority.certificate.read_bytes(), pair)
    path = files.kubeconfig(name)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


def kubeconfig(cluster: str, url: str, certificate_authority: bytes, pair: KeyPair) -> dict[str, Any]:
    user = {
        "client-certificate-data": _base64(pair.certificate.read_bytes()),
        "client-key-data": _base64(pair.key.read_bytes()),
    }
    server = {"server": url, "certificate-authority-data": _base64(certificate_authority)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "clusters": [{"name": cluster, "cluster": server}],
        "users": [{"name": cluster, "user": user}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
    }


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
