"""How kwok is started: one process per cluster, which simulates the kubelets of all nodes that aren't real."""

from __future__ import annotations

from pathlib import Path

from lab import processes
from lab.nodes import programs
from lab.nodes.cluster_files import ClusterFiles, loopback
from lab.nodes.components.control_plane import STOP_SECONDS, ControlPlane
from lab.nodes.kubeconfig import ADMIN_GROUP, write_kubeconfig
from lab.nodes.simulated.node_object import SIMULATED

STAGES = Path(__file__).parent / "stages.yaml"
POD_NETWORK = "10.212.0.1/16"
"""Addresses of simulated pods; apart from those of real pods."""
LEASE_SECONDS = 120
"""kwok renews at a quarter of it, within the controller manager's 50 s of grace. A thousand nodes with
the kubelet's 40 s would keep one core busy with 100 renewals a second."""


def start(plane: ControlPlane) -> None:
    """Start kwok unless it runs."""
    files = plane.files
    name = files.process("kwok")
    if processes.find(files.lab, name):
        return
    kubeconfig = write_kubeconfig(files, plane.authority, "kwok", "kwok", ADMIN_GROUP)
    serving = plane.authority.issue(files.pair("kwok-serving"), "kwok", addresses=[str(loopback())])
    command: list[str | Path] = [
        programs.find(files.lab, "kwok"),
        f"--kubeconfig={kubeconfig}",
        f"--config={STAGES}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={'='.join(SIMULATED)}",
        f"--node-lease-duration-seconds={LEASE_SECONDS}",
        f"--cidr={POD_NETWORK}",
        f"--server-address={loopback()}:{files.port('kwok')}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        "--v=WARN",
    ]
    programs.spawn(files.lab, name, command, files.folder)


def stop(files: ClusterFiles) -> None:
    found = processes.find(files.lab, files.process("kwok"))
    if found:
        processes.stop(found, STOP_SECONDS)
