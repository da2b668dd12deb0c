"""containerd of a real node: its configuration and its command line."""

from __future__ import annotations

from pathlib import Path

from lab.nodes import programs
from lab.nodes.node.node_files import NodeFiles

PAUSE = "lab/pause:1"
"""The sandbox image, in the lab's registry."""
SOCKET = "/run/containerd/containerd.sock"


def write(files: NodeFiles) -> None:
    lab = files.lab
    (files.folder / "containerd").mkdir(parents=True, exist_ok=True)
    (files.folder / "containerd.toml").write_text(f"""\
version = 2
root = "{files.folder}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{lab.registry}/{PAUSE}"
  # Some machines refuse negative OOM scores even to root.
  restrict_oom_score_adj = true

[plugins."io.containerd.grpc.v1.cri".containerd]
  # What a layer was unpacked from is in the registry; twice on one disk is enough.
  discard_unpacked_layers = true

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{programs.cni_plugins(lab)}"
  conf_dir = "{files.cni}"

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "{registries(files)}"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  BinaryName = "{programs.find(lab, "runc")}"
  SystemdCgroup = false
""")
    _write_registry(files)


def command(files: NodeFiles) -> list[str | Path]:
    return [programs.find(files.lab, "containerd"), f"--config={files.folder}/containerd.toml"]


def registries(files: NodeFiles) -> Path:
    """The folder that says how registries are reached (containerd's hosts.toml)."""
    return files.folder / "registries"


def _write_registry(files: NodeFiles) -> None:
    """Images are named after the registry's loopback address; the node reaches it over the bridge."""
    lab = files.lab
    folder = registries(files) / lab.registry
    folder.mkdir(parents=True, exist_ok=True)
    url = f"http://{lab.gateway}:{lab.registry_port}"
    capabilities = 'capabilities = ["pull", "resolve"]'
    (folder / "hosts.toml").write_text(f'server = "{url}"\n\n[host."{url}"]\n  {capabilities}\n')
