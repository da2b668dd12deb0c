"""What the device plugins on a real node offer: a file that the lab's plugins read when their pods start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab import bootstrap
from lab.nodes.api import NodeSpec
from lab.nodes.node.node_files import NodeFiles

PYTHON_IN_POD = "/opt/shardyard/python"
"""Where pods with a GPU see the trainer's Python packages."""
_PATH = "kubelet/device-plugins/shardyard-devices.json"


def write(files: NodeFiles) -> None:
    packages = bootstrap.trainer_folder(files.lab, bootstrap.PROJECT, bootstrap.PODS)
    path = files.folder / _PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(devices(packages, files.spec), indent=2))


def devices(packages: Path, spec: NodeSpec) -> dict[str, Any]:
    """Count, mounts and environment of each extended resource of the node.

    A GPU comes with a mount of the trainer's Python packages, as the NVIDIA runtime mounts the driver: that keeps
    5 GB out of the images. `packages` is the folder that trainer/requirements.txt of this checkout was installed
    into. If it doesn't exist (in a test of nodes alone), nothing is mounted.
    """
    offers: dict[str, Any] = {
        name: {"count": count, "mounts": [], "env": {}} for name, count in spec.devices.items()
    }
    if packages.exists() and "nvidia.com/gpu" in offers:
        offers["nvidia.com/gpu"]["mounts"] = [{"host": str(packages), "container": PYTHON_IN_POD}]
    return offers
