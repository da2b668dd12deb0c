"""kube-proxy of a real node: its configuration and its command line."""

from __future__ import annotations

from pathlib import Path

import yaml

from lab.nodes import programs
from lab.nodes.kubeconfig import write_kubeconfig
from lab.nodes.node.node_files import NodeFiles


def write(files: NodeFiles) -> None:
    plane = files.plane
    # A kubeconfig per node: a shared one could be read while another node writes it.
    kubeconfig = write_kubeconfig(
        plane.files, plane.authority, f"{files.user}.kube-proxy", "system:kube-proxy"
    )
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": files.spec.name,
        "detectLocalMode": "ClusterCIDR",
        "clusterCIDR": str(files.lab.pod_network),
        # Zero leaves the machine's connection tracking alone; a namespace may not change it.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
    (files.folder / "kube-proxy.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def command(files: NodeFiles) -> list[str | Path]:
    return [programs.find(files.lab, "kube-proxy"), f"--config={files.folder}/kube-proxy.yaml", "--v=1"]
