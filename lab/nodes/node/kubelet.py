"""The kubelet of a real node: its configuration, its certificates and its command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lab.nodes import programs
from lab.nodes.kubeconfig import write_kubeconfig
from lab.nodes.node.containerd import SOCKET
from lab.nodes.node.node_files import NodeFiles

CLUSTER_DNS_INDEX = 10
"""EKS's rule: the tenth address of the service network."""


def write(files: NodeFiles, cgroup: str) -> None:
    """`cgroup` is the control group that the kubelet makes its pods' groups in."""
    plane, spec = files.plane, files.spec
    user, group = f"system:node:{spec.name}", "system:nodes"
    write_kubeconfig(plane.files, plane.authority, files.user, user, group)
    serving = plane.files.pair(f"{files.user}.serving")
    plane.authority.issue(serving, user, group, (spec.name, files.address))
    (files.folder / "resolv.conf").write_text("")  # pods get the cluster's DNS; nothing outside answers
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(plane.authority.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroup,
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [str(files.lab.service_network[CLUSTER_DNS_INDEX])],
        "clusterDomain": "cluster.local",
        "resolvConf": str(files.folder / "resolv.conf"),
        "providerID": f"aws:///{spec.zone}/{spec.instance_id}",
        "maxPods": spec.pods,
        "serializeImagePulls": False,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        # The disk is the machine's: a node must not evict pods because of what else is on it.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
    }
    (files.folder / "kubelet.yaml").write_text(yaml.safe_dump(config, sort_keys=False))


def command(files: NodeFiles) -> list[str | Path]:
    return [
        programs.find(files.lab, "kubelet"),
        f"--config={files.folder}/kubelet.yaml",
        f"--kubeconfig={files.plane.files.kubeconfig(files.user)}",
        f"--hostname-override={files.spec.name}",
        f"--node-ip={files.address}",
        "--root-dir=/var/lib/kubelet",
        "--cert-dir=/var/lib/kubelet/pki",
        "--v=1",
    ]
