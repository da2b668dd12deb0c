"""How a cluster's API server is started."""

from __future__ import annotations

from pathlib import Path

import yaml

from lab.nodes import programs
from lab.nodes.cluster_files import ClusterFiles, loopback
from lab.nodes.components.flags import VERBOSITY, tls
from lab.nodes.kubeconfig import ADMIN_GROUP
from lab.nodes.pki import CertificateAuthority, signing_key

SIMULATED_KUBELET = "Kwok"
"""Type of the node address at which kwok serves logs and exec. It is preferred to all other types."""
ISSUER = "https://kubernetes.default.svc.cluster.local"


def command(
    files: ClusterFiles,
    authority: CertificateAuthority,
    etcd: CertificateAuthority,
    front_proxy: CertificateAuthority,
    token_webhook: str,
) -> list[str | Path]:
    """The command line; writes the certificates and the webhook's configuration that it names.

    Raises FileNotFoundError without the program.
    """
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
    return [
        programs.find(files.lab, "kube-apiserver"),
        f"--bind-address={address}",
        "--allow-privileged=true",  # as on EKS: who may not is the business of admission
        f"--advertise-address={address}",
        f"--secure-port={files.port('api')}",
        f"--etcd-servers=https://{loopback()}:{files.port('etcd')}",
        f"--etcd-cafile={etcd.certificate}",
        *tls(etcd_client, "--etcd-certfile", "--etcd-keyfile"),
        *tls(server, "--tls-cert-file", "--tls-private-key-file"),
        f"--client-ca-file={authority.certificate}",
        f"--service-cluster-ip-range={files.lab.service_network}",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={accounts.certificate}",
        f"--service-account-signing-key-file={accounts.key}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        # It needs a newer etcd than Debian's. Clients that find it on but failing wait before they fall back.
        "--feature-gates=WatchList=false",
        f"--authentication-token-webhook-config-file={_write_webhook(files, token_webhook)}",
        "--authentication-token-webhook-version=v1",
        "--authentication-token-webhook-cache-ttl=5s",  # so that a deleted access entry soon stops working
        # Kubelets are called at their addresses (their names resolve nowhere), and must show a certificate
        # of this cluster.
        f"--kubelet-preferred-address-types={SIMULATED_KUBELET},InternalIP",
        f"--kubelet-certificate-authority={authority.certificate}",
        *tls(kubelet_client, "--kubelet-client-certificate", "--kubelet-client-key"),
        # The host has no kube-proxy: webhooks and aggregated APIs are called at their pods' addresses.
        "--enable-aggregator-routing=true",
        f"--requestheader-client-ca-file={front_proxy.certificate}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        *tls(proxy_client, "--proxy-client-cert-file", "--proxy-client-key-file"),
        f"--endpoint-reconciler-type={'none' if address == str(loopback()) else 'lease'}",
        "--profiling=false",
        VERBOSITY,
    ]


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
