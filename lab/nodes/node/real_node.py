"""A real node: Linux namespaces with containerd, a kubelet and the node's add-ons in them.

Its first process holds the namespaces (network, mounts, process ids, host name). When that is killed, the
kernel kills every other process of the node, pods included, and removes mounts, addresses and packet filter
rules with the namespaces.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from lab import processes
from lab.nodes import programs
from lab.nodes.api import NodeSpec
from lab.nodes.components.control_plane import ControlPlane
from lab.nodes.node import (
    bridge,
    cgroups,
    containerd,
    devices,
    image_aliases,
    init,
    kube_proxy,
    kubelet,
    namespaces,
    network,
)
from lab.nodes.node.node_files import NodeFiles
from lab.processes import Process

START_SECONDS = 60
STOP_SECONDS = 60
KUBE_PROXY, FSX, NETWORK = "kube-proxy", "aws-fsx-csi-driver", "vpc-cni"
"""The add-ons that run something on each real node."""
KEEP_RUNNING = """\
trap 'exit 0' TERM
while :; do
  "$@"
  echo "$1 ended with status $?; starting it again"
  sleep 1
done"""
"""What systemd does on a node of EKS. A SIGTERM goes to the whole process group, so the program ends first."""


class RealNode:
    """One node. Starting, stopping and enabling add-ons are idempotent and safe from any thread."""

    def __init__(self, plane: ControlPlane, spec: NodeSpec, number: int) -> None:
        self.files = NodeFiles(plane, spec, number)
        self.spec = spec
        self.number = number
        self._lab = plane.files.lab
        self._lock = threading.Lock()
        self._stopped = False

    def start(self) -> None:
        """Make the namespaces and start containerd and the kubelet. Pods get a network with the vpc-cni add-on.

        Raises RuntimeError with the end of the log of a program that didn't start.
        """
        with self._lock:
            if self._stopped:
                return
            self._write_files()
            pid = self._start_first_process()
            self._spawn("containerd", pid, containerd.command(self.files))
            self._wait_for_containerd(pid)
            self._spawn("kubelet", pid, kubelet.command(self.files))
        threading.Thread(target=self._provide_image_aliases, args=(pid,), daemon=True).start()

    def stop(self) -> None:
        """Kill everything in the node; remove its link to the bridge and its control groups."""
        with self._lock:
            self._stopped = True
            first = processes.find(self._lab, self.files.process("init"))
            if first:
                namespaces.kill(first, STOP_SECONDS)
            processes.stop_all(self._lab, self.files.process(""), grace=1)
            bridge.disconnect(self._lab, self.number)
            cgroups.remove(self._lab, self.spec.name)

    def restart_kubelet(self) -> None:
        """As `systemctl restart kubelet`: the pods go on running."""
        with self._lock:
            self._stop_program("kubelet")
            self._spawn("kubelet", self.first_process(), kubelet.command(self.files))

    def enable(self, addon: str) -> None:
        """Start the part of an add-on that runs on nodes; other add-ons have none."""
        with self._lock:
            if self._stopped:
                return
            if addon == NETWORK:
                network.enable(self.files)
            elif addon == KUBE_PROXY:
                self._spawn(addon, self.first_process(), kube_proxy.command(self.files))
            elif addon == FSX:
                self._lab.file_systems.mkdir(parents=True, exist_ok=True)
                self._spawn(addon, self.first_process(), self._csi_driver())

    def disable(self, addon: str) -> None:
        with self._lock:
            if addon == NETWORK:
                network.disable(self.files)
            elif addon in (KUBE_PROXY, FSX):
                self._stop_program(addon)

    def first_process(self) -> int:
        """Its process id, seen from outside. Raises RuntimeError if the node isn't running."""
        parent = processes.find(self._lab, self.files.process("init"))
        if parent is None:
            raise RuntimeError(f"node {self.spec.name} is not running{self.files.log_tail('init')}")
        return namespaces.first_process(parent)

    def _write_files(self) -> None:
        init.check_folders(self._lab)
        self.files.cni.mkdir(parents=True, exist_ok=True)
        init.write(self.files)
        containerd.write(self.files)
        kubelet.write(self.files, cgroups.create(self._lab, self.spec.name))
        kube_proxy.write(self.files)
        devices.write(self.files)

    def _start_first_process(self) -> int:
        name = self.files.process("init")
        if processes.find(self._lab, name):
            return self.first_process()
        self.files.ready.unlink(missing_ok=True)
        command = namespaces.unshare(self._lab, ["sh", self.files.folder / "init.sh"])
        parent = programs.spawn(self._lab, name, command, self.files.folder)
        self._wait(self.files.ready.exists, parent, "init")
        pid = namespaces.first_process(parent)
        bridge.connect(self._lab, self.number, pid)
        return pid

    def _spawn(self, name: str, pid: int, command: Sequence[str | Path]) -> None:
        """Start a program of the node, unless it runs, and start it again whenever it ends."""
        record = self.files.process(name)
        if not processes.find(self._lab, record):
            loop = ("sh", "-c", KEEP_RUNNING, "sh", *command)
            programs.spawn(self._lab, record, namespaces.enter(self._lab, pid, loop), self.files.folder)

    def _stop_program(self, name: str) -> None:
        found = processes.find(self._lab, self.files.process(name))
        if found:
            # The record is nsenter's, which ends at once; its child, the loop, ends after the program.
            loop = namespaces.children(found.pid)
            processes.stop(found)
            psutil.wait_procs(loop, timeout=STOP_SECONDS)

    def _wait_for_containerd(self, pid: int) -> None:
        socket = Path(f"/proc/{pid}/root{containerd.SOCKET}")
        process = processes.find(self._lab, self.files.process("containerd"))
        self._wait(socket.exists, process, "containerd")

    def _wait(self, done: Callable[[], bool], process: Process | None, name: str) -> None:
        """Raises RuntimeError with the end of the log if the process ends first, or takes too long."""
        deadline = time.monotonic() + START_SECONDS
        while not done():
            if process is None or not process.alive() or time.monotonic() > deadline:
                raise RuntimeError(f"{name} of node {self.spec.name} didn't start{self.files.log_tail(name)}")
            time.sleep(0.05)

    def _provide_image_aliases(self, pid: int) -> None:
        """In the background: the kubelet retries an image that isn't there yet."""

        def ctr(*arguments: str) -> bool:
            client: list[str | Path] = [programs.find(self._lab, "ctr"), "--namespace=k8s.io", *arguments[:2]]
            if arguments[1] == "pull":
                client.append(f"--hosts-dir={containerd.registries(self.files)}")
            command = namespaces.enter(self._lab, pid, [*client, *arguments[2:]])
            return subprocess.run(command, capture_output=True, check=False).returncode == 0

        missing = image_aliases.provide(self._lab.registry, ctr, accelerated=bool(self.spec.devices))
        if missing and not self._stopped:
            print(f"node {self.spec.name}: no image for {', '.join(missing)}", flush=True)

    def _csi_driver(self) -> list[str | Path]:
        return [
            programs.find(self._lab, "node-plugins"),
            "fsx-csi-node",
            f"--file-systems={self._lab.file_systems}",
            f"--node={self.spec.instance_id}",
        ]
