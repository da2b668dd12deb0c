"""The pod network of a real node: a CNI configuration that containerd finds once the vpc-cni add-on is installed."""

from __future__ import annotations

import json
from pathlib import Path

from lab.nodes.node import bridge
from lab.nodes.node.node_files import NodeFiles


def enable(files: NodeFiles) -> None:
    """Write the configuration, which makes the node's network ready.

    The plugin is ptp and not bridge: every packet between pods is routed, so that answers through a Service's
    address need no bridge netfilter.
    """
    subnet = str(bridge.pod_subnet(files.lab, files.number))
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
    temporary = files.cni / "new"  # containerd watches the folder and must not read half a file
    temporary.write_text(json.dumps(config, indent=2))
    temporary.replace(_path(files))


def disable(files: NodeFiles) -> None:
    _path(files).unlink(missing_ok=True)


def _path(files: NodeFiles) -> Path:
    return files.cni / "10-shardyard.conflist"
