"""One cluster's control plane: etcd, API server, controller manager and scheduler as processes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import urllib3

from lab import processes
from lab.nodes import programs
from lab.nodes.client.api import ApiClient, ApiError
from lab.nodes.cluster_files import ClusterFiles
from lab.nodes.components import api_server, controller_manager, etcd, scheduler
from lab.nodes.kubeconfig import ADMIN_GROUP, write_kubeconfig
from lab.nodes.pki import CertificateAuthority

START_SECONDS = 120
STOP_SECONDS = 3
"""SIGKILL follows soon: the data of a deleted cluster needs no orderly end."""


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane: its files, its certificate authority and an administrator's API client."""

    files: ClusterFiles
    authority: CertificateAuthority
    client: ApiClient


def start(files: ClusterFiles, token_webhook: str) -> ControlPlane:
    """Start all four programs and wait until the API server is ready.

    The API server sends TokenReviews to the URL `token_webhook`/CLUSTER: a TokenReview itself doesn't say which
    cluster, and so whose access entries, it is about.
    Raises RuntimeError with the end of the log of a program that didn't start, FileNotFoundError for one that is
    missing.
    """
    files.pki.mkdir(parents=True, exist_ok=True)
    files.folder.chmod(0o700)
    authority, etcd_authority, front_proxy = (
        CertificateAuthority(files.pki, name) for name in ("ca", "etcd-ca", "front-proxy-ca")
    )
    write_kubeconfig(files, authority, "admin", "kubernetes-admin", ADMIN_GROUP)

    _spawn(files, "etcd", etcd.command(files, etcd_authority))
    _spawn(files, "api", api_server.command(files, authority, etcd_authority, front_proxy, token_webhook))
    client = ApiClient(files.url, str(authority.certificate), files.pair("admin"))
    _wait_ready(files, client)
    _spawn(files, controller_manager.NAME, controller_manager.command(files, authority))
    _spawn(files, scheduler.NAME, scheduler.command(files, authority))
    return ControlPlane(files, authority, client)


def stop(files: ClusterFiles) -> None:
    """Stop the four programs, clients before servers."""
    for name in (scheduler.NAME, controller_manager.NAME, "api", "etcd"):
        found = processes.find(files.lab, files.process(name))
        if found:
            processes.stop(found, STOP_SECONDS)


def _spawn(files: ClusterFiles, name: str, command: list[str | Path]) -> None:
    programs.spawn(files.lab, files.process(name), command, files.folder)


def _wait_ready(files: ClusterFiles, client: ApiClient) -> None:
    deadline = time.monotonic() + START_SECONDS
    reason = ""
    while time.monotonic() < deadline:
        for name in ("etcd", "api"):
            if not processes.find(files.lab, files.process(name)):
                raise RuntimeError(f"cluster {files.name}: {name} ended while starting{files.log_tail(name)}")
        try:
            client.call("GET", "/readyz", timeout=5)
            return
        except (ApiError, urllib3.exceptions.HTTPError) as error:
            reason = str(error)
        time.sleep(0.2)
    raise RuntimeError(
        f"cluster {files.name}: API server not ready after {START_SECONDS} s ({reason}){files.log_tail('api')}"
    )
