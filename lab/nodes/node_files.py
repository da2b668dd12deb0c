"""The configuration files of a real node's programs."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab import bootstrap
from lab.nodes import bridge, programs
from lab.nodes.api import NodeSpec
from lab.nodes.control_plane import ControlPlane
from lab.nodes.files import write_kubeconfig

PAUSE = "lab/pause:1"
"""The sandbox image, in the lab's registry."""
CLUSTER_DNS_INDEX = 10
"""EKS's rule: the tenth address of the service network."""
PYTHON_IN_POD = "/opt/shardyard/python"
"""Where pods with a GPU see the trainer's Python packages (see `devices`)."""

# The kubelet insists on these (pkg/kubelet/cm, setupKernelTunables). They are the whole machine's, so in the
# node's mount namespace files with the wanted values lie on top of them, and the machine's stay as they are.
KERNEL_TUNABLES = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


@dataclass(frozen=True)
class NodeFiles:
    """One node's folder and what is written to it."""

    plane: ControlPlane
    spec: NodeSpec
    number: int
    """Which of the bridge's node addresses it has."""

    @property
    def folder(self) -> Path:
        return self.plane.files.node_folder(self.spec.name)

    @property
    def address(self) -> str:
        return str(bridge.node_address(self.plane.files.lab, self.number))

    @property
    def cni(self) -> Path:
        return self.folder / "cni"

    @property
    def ready(self) -> Path:
        """Exists once the node's own mounts are made."""
        return self.folder / "ready"

    def write(self, cgroup: str) -> None:
        for name in ("kubelet/device-plugins", "containerd", "cni", "log", "cni-state", "sysctl"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for name, value in KERNEL_TUNABLES.items():
            (self.folder / "sysctl" / name.replace("/", ".")).write_text(f"{value}\n")
        (self.folder / "init.sh").write_text(self._init())
        (self.folder / "containerd.toml").write_text(self._containerd())
        self._write_registry()
        self._write_kubelet(cgroup)
        self._write_kube_proxy()
        packages = bootstrap.trainer_folder(self.plane.files.lab, bootstrap.PROJECT, bootstrap.PODS)
        offers = devices(packages, self.spec)
        (self.folder / "kubelet/device-plugins/shardyard-devices.json").write_text(
            json.dumps(offers, indent=2)
        )

    def write_network(self) -> None:
        """The file whose presence makes the node's network ready. ptp rather than bridge: every packet between pods
        is routed, so that answers through a Service's address need no bridge netfilter to find their way back."""
        subnet = str(bridge.pod_subnet(self.plane.files.lab, self.number))
        addresses = {
            "type": "host-local",
            "ranges": [[{"subnet": subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": "/run/cni",
        }
        plugins = [
            {"type": "ptp", "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ]
        config = {"cniVersion": "0.4.0", "name": "shardyard", "plugins": plugins}
        temporary = self.cni / "new"
        temporary.write_text(json.dumps(config, indent=2))
        temporary.replace(self.network_file)

    @property
    def network_file(self) -> Path:
        return self.cni / "10-shardyard.conflist"

    def _init(self) -> str:
        """What process 1 of the node does before it becomes `pause`."""
        folder = self.folder
        binds = {"kubelet": "/var/lib/kubelet", "cni-state": "/var/lib/cni", "log": "/var/log"}
        lines = ["set -eu", "mount --make-rshared /"]  # pods' volumes are mounted through it
        lines += [f"mount -t tmpfs -o mode=755 tmpfs {path}" for path in ("/run", "/var/lib")]
        for name, target in binds.items():
            lines += [f"mkdir -p {target}", f"mount --bind {shlex.quote(str(folder / name))} {target}"]
        for name in KERNEL_TUNABLES:
            source = folder / "sysctl" / name.replace("/", ".")
            lines.append(f"mount --bind {shlex.quote(str(source))} /proc/sys/{name}")
        lines += [
            f"hostname {shlex.quote(self.spec.name)}",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
            f"touch {shlex.quote(str(self.ready))}",
            f"exec {shlex.quote(str(programs.find(self.plane.files.lab, 'node-plugins')))} pause",
        ]
        return "\n".join(lines) + "\n"

    def _containerd(self) -> str:
        lab = self.plane.files.lab
        return f"""\
version = 2
root = "{self.folder}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{lab.registry}/{PAUSE}"
  # Some machines refuse negative OOM scores even to root.
  restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd]
  # What a layer was unpacked from is in the registry; twice on one disk is enough.
  discard_unpacked_layers = true

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{programs.cni_plugins(lab)}"
  conf_dir = "{self.cni}"

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "{self.folder}/registries"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  BinaryName = "{programs.find(lab, "runc")}"
  SystemdCgroup = false
"""

    def _write_registry(self) -> None:
        """Images are named after the registry's loopback address; the node reaches it over the bridge."""
        lab = self.plane.files.lab
        folder = self.folder / "registries" / lab.registry
        folder.mkdir(parents=True, exist_ok=True)
        url = f"http://{lab.gateway}:{lab.registry_port}"
        capabilities = 'capabilities = ["pull", "resolve"]'
        (folder / "hosts.toml").write_text(f'server = "{url}"\n\n[host."{url}"]\n  {capabilities}\n')

    def _write_kubelet(self, cgroup: str) -> None:
        plane, spec = self.plane, self.spec
        lab = plane.files.lab
        write_kubeconfig(
            plane.files, plane.authority, self.user, f"system:node:{spec.name}", ("system:nodes",)
        )
        serving = plane.files.pair(f"{self.user}.serving")
        plane.authority.issue(
            serving, f"system:node:{spec.name}", ("system:nodes",), (spec.name, self.address)
        )
        (self.folder / "resolv.conf").write_text("")  # pods get the cluster's DNS; nothing outside answers
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
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroup,
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [str(lab.service_network[CLUSTER_DNS_INDEX])],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.folder / "resolv.conf"),
            "providerID": f"aws:///{spec.zone}/{spec.instance_id}",
            "maxPods": spec.pods,
            "serializeImagePulls": False,
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            # The disk is the machine's: what is on it besides is none of this node's business.
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "imageGCHighThresholdPercent": 100,
        }
        (self.folder / "kubelet.yaml").write_text(yaml.safe_dump(config, sort_keys=False))

    def _write_kube_proxy(self) -> None:
        name = f"{self.user}.kube-proxy"  # of its own: another node's may be read while this one's is written
        kubeconfig = write_kubeconfig(self.plane.files, self.plane.authority, name, "system:kube-proxy")
        config = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "hostnameOverride": self.spec.name,
            "detectLocalMode": "ClusterCIDR",
            "clusterCIDR": str(self.plane.files.lab.pod_network),
            # Zero leaves the machine's connection tracking alone; a namespace may not change it.
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
        }
        (self.folder / "kube-proxy.yaml").write_text(yaml.safe_dump(config, sort_keys=False))

    @property
    def user(self) -> str:
        """Name of the kubelet's certificate and kubeconfig."""
        return f"node.{self.spec.name}"

    @property
    def kubeconfig(self) -> Path:
        return self.plane.files.kubeconfig(self.user)


def devices(packages: Path, spec: NodeSpec) -> dict[str, Any]:
    """What the node's device plugins offer, by resource.

    A GPU brings the trainer's Python packages with it, as the NVIDIA runtime brings the driver: 5 GB that then
    are in no image. `packages` is the folder that this checkout's trainer/requirements.txt was installed into; where it
    doesn't exist yet (a test of nodes alone), nothing is mounted.
    """
    offers: dict[str, Any] = {
        name: {"count": count, "mounts": [], "env": {}} for name, count in spec.devices.items()
    }
    if packages.exists() and "nvidia.com/gpu" in offers:
        offers["nvidia.com/gpu"]["mounts"] = [{"host": str(packages), "container": PYTHON_IN_POD}]
    return offers
