"""One cluster's control plane: etcd, API server, controller manager and scheduler as processes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import urllib3
import yaml

from lab import processes
from lab.nodes import programs
from lab.nodes.client import ApiError, Client
from lab.nodes.files import ClusterFiles, loopback, write_kubeconfig
from lab.nodes.node_object import KWOK_ADDRESS
from lab.nodes.pki import Authority, Pair, signing_key

START_SECONDS = 120
STOP_SECONDS = 3
"""Nothing in a control plane that goes away for good is worth a longer wait."""
ADMIN_GROUP = ("system:masters",)
_VERBOSITY = "--v=1"


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane: its files, its authority (for more certificates) and an admin's client."""

    files: ClusterFiles
    authority: Authority
    client: Client


def start(files: ClusterFiles, token_webhook: str) -> ControlPlane:
    """Start all four programs and wait until the API server is ready.

    `token_webhook` is the URL that the API server sends TokenReviews to, with the cluster's name behind it:
    who asks decides whose access entries count, and a review doesn't say it.
    Raises RuntimeError with the end of the log of whatever didn't come up.
    """
    files.pki.mkdir(parents=True, exist_ok=True)
    files.folder.chmod(0o700)
    authority = Authority(files.pki, "ca")
    etcd = Authority(files.pki, "etcd-ca")
    front_proxy = Authority(files.pki, "front-proxy-ca")
    write_kubeconfig(files, authority, "admin", "kubernetes-admin", ADMIN_GROUP)
    controllers = write_kubeconfig(files, authority, "controller-manager", "system:kube-controller-manager")
    scheduler = write_kubeconfig(files, authority, "scheduler", "system:kube-scheduler")
    webhook = _write_webhook(files, token_webhook)

    _spawn(files, "etcd", _etcd(files, etcd))
    _spawn(files, "api", _api_server(files, authority, etcd, front_proxy, webhook))
    client = Client(files.url, str(authority.certificate), files.pair("admin"))
    _wait_ready(files, client)
    _spawn(files, "controller-manager", _controller_manager(files, authority, controllers))
    _spawn(files, "scheduler", _scheduler(files, scheduler))
    return ControlPlane(files, authority, client)


def stop(files: ClusterFiles) -> None:
    """Stop the four programs, clients before servers."""
    for name in ("scheduler", "controller-manager", "api", "etcd"):
        found = processes.find(files.lab, files.process(name))
        if found:
            processes.stop(found, STOP_SECONDS)


def _spawn(files: ClusterFiles, name: str, command: list[str | Path]) -> None:
    if not processes.find(files.lab, files.process(name)):
        programs.spawn(files.lab, files.process(name), command, files.folder)


def _wait_ready(files: ClusterFiles, client: Client) -> None:
    deadline = time.monotonic() + START_SECONDS
    reason = ""
    while time.monotonic() < deadline:
        for name in ("etcd", "api"):
            if not processes.find(files.lab, files.process(name)):
                raise RuntimeError(
                    f"cluster {files.name}: {name} ended while starting{log_tail(files, name)}"
                )
        try:
            client.call("GET", "/readyz", timeout=5)
            return
        except (ApiError, urllib3.exceptions.HTTPError) as error:
            reason = str(error)
        time.sleep(0.2)
    raise RuntimeError(
        f"cluster {files.name}: API server not ready after {START_SECONDS} s ({reason}){log_tail(files, 'api')}"
    )


def log_tail(files: ClusterFiles, *process: str, lines: int = 8) -> str:
    """The end of a process's log, ready to be put behind an error message."""
    path = files.lab.logs / f"{files.process(*process)}.log"
    try:
        text = path.read_text(errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        return ""
    return f"; the end of {path}:\n" + "\n".join(text)


def _etcd(files: ClusterFiles, authority: Authority) -> list[str | Path]:
    client, peer = files.port("etcd"), files.port("etcd-peer")
    address = str(loopback())
    server = authority.issue(files.pair("etcd"), "etcd", addresses=(address, "localhost"))
    return [
        programs.find(files.lab, "etcd"),
        "--name=main",
        f"--data-dir={files.folder / 'etcd'}",
        f"--listen-client-urls=https://{address}:{client}",
        f"--advertise-client-urls=https://{address}:{client}",
        f"--listen-peer-urls=https://{address}:{peer}",
        f"--initial-advertise-peer-urls=https://{address}:{peer}",
        f"--initial-cluster=main=https://{address}:{peer}",
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


def _api_server(
    files: ClusterFiles, authority: Authority, etcd: Authority, front_proxy: Authority, webhook: Path
) -> list[str | Path]:
    address = str(files.address)
    first = str(files.lab.service_network[1])
    names = (
        "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
        "localhost", str(loopback()), address, first,
    )  # fmt: skip
    server = authority.issue(files.pair("api"), "kube-apiserver", addresses=sorted(set(names)))
    kubelet_client = authority.issue(files.pair("api-kubelet-client"), "kube-apiserver", ADMIN_GROUP)
    etcd_client = etcd.issue(files.pair("api-etcd-client"), "kube-apiserver")
    proxy_client = front_proxy.issue(files.pair("front-proxy-client"), "front-proxy-client")
    accounts = signing_key(files.pki, "service-accounts")
    issuer = "https://kubernetes.default.svc.cluster.local"
    return [
        programs.find(files.lab, "kube-apiserver"),
        f"--bind-address={address}",
        f"--advertise-address={address}",
        f"--secure-port={files.port('api')}",
        f"--etcd-servers=https://{loopback()}:{files.port('etcd')}",
        f"--etcd-cafile={etcd.certificate}",
        *_tls(etcd_client, "--etcd-certfile", "--etcd-keyfile"),
        *_tls(server, "--tls-cert-file", "--tls-private-key-file"),
        f"--client-ca-file={authority.certificate}",
        f"--service-cluster-ip-range={files.lab.service_network}",
        f"--service-account-issuer={issuer}",
        f"--service-account-key-file={accounts.certificate}",
        f"--service-account-signing-key-file={accounts.key}",
        "--allow-privileged=true",  # as on EKS: who may not is the business of admission
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        # Needs a newer etcd than Debian's; clients that find it switched on but failing wait before they fall back.
        "--feature-gates=WatchList=false",
        f"--authentication-token-webhook-config-file={webhook}",
        "--authentication-token-webhook-version=v1",
        "--authentication-token-webhook-cache-ttl=5s",  # so that a deleted access entry soon stops working
        # Kubelets: by address (their names resolve nowhere), and only with a certificate of this cluster.
        f"--kubelet-preferred-address-types={KWOK_ADDRESS},InternalIP",
        f"--kubelet-certificate-authority={authority.certificate}",
        *_tls(kubelet_client, "--kubelet-client-certificate", "--kubelet-client-key"),
        # The host has no kube-proxy: webhooks and aggregated APIs are called at their pods' addresses.
        "--enable-aggregator-routing=true",
        f"--requestheader-client-ca-file={front_proxy.certificate}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        *_tls(proxy_client, "--proxy-client-cert-file", "--proxy-client-key-file"),
        "--endpoint-reconciler-type=none"
        if address == str(loopback())
        else "--endpoint-reconciler-type=lease",
        "--profiling=false",
        _VERBOSITY,
    ]


def _controller_manager(files: ClusterFiles, authority: Authority, kubeconfig: Path) -> list[str | Path]:
    return [
        programs.find(files.lab, "kube-controller-manager"),
        *_component(files, "controller-manager", kubeconfig),
        f"--root-ca-file={authority.certificate}",
        f"--service-account-private-key-file={files.pki / 'service-accounts.key'}",
        *_tls(authority.pair, "--cluster-signing-cert-file", "--cluster-signing-key-file"),
        "--use-service-account-credentials=true",
        "--allocate-node-cidrs=false",
        "--pvclaimbinder-sync-period=5s",
        # It makes this folder; by default that is one in /usr/libexec, which would outlive the lab.
        f"--flex-volume-plugin-dir={files.folder / 'volume-plugins'}",
    ]


def _scheduler(files: ClusterFiles, kubeconfig: Path) -> list[str | Path]:
    return [programs.find(files.lab, "kube-scheduler"), *_component(files, "scheduler", kubeconfig)]


def _component(files: ClusterFiles, name: str, kubeconfig: Path) -> list[str | Path]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={loopback()}",
        f"--secure-port={files.port(name)}",
        *_tls(files.pair(name), "--tls-cert-file", "--tls-private-key-file"),
        "--leader-elect=false",
        "--profiling=false",
        # The default of 20 requests a second makes the pods of a thousand nodes wait for minutes.
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        _VERBOSITY,
    ]


def _tls(pair: Pair, certificate_flag: str, key_flag: str) -> list[str]:
    return [f"{certificate_flag}={pair.certificate}", f"{key_flag}={pair.key}"]


def _write_webhook(files: ClusterFiles, url: str) -> Path:
    """In the form of a kubeconfig. (A token in it would not be sent: client-go sends none without TLS.)"""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "webhook",
        "clusters": [{"name": "webhook", "cluster": {"server": f"{url}/{files.name}"}}],
        "users": [{"name": files.name, "user": {}}],
        "contexts": [{"name": "webhook", "context": {"cluster": "webhook", "user": files.name}}],
    }
    path = files.folder / "token-webhook.yaml"
    path.write_text(yaml.safe_dump(config))
    return path
