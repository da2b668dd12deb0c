"""A real node: Linux namespaces with containerd, a kubelet and the node's add-ons in them.

Its first process holds the namespaces (network, mounts, process ids, host name). When that is killed the
kernel kills every other process of the node, pods included, and takes mounts, addresses and packet filter
rules away with the namespaces.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from lab import processes
from lab.nodes import bridge, cgroups, programs, stand_ins
from lab.nodes.api import NodeSpec
from lab.nodes.control_plane import ControlPlane, log_tail
from lab.nodes.node_files import NodeFiles
from lab.processes import Process
from lab.settings import Lab

START_SECONDS = 60
KUBE_PROXY, FSX, NETWORK = "kube-proxy", "aws-fsx-csi-driver", "vpc-cni"
NAMESPACES = ("--net", "--mount", "--pid", "--uts")
"""Flags of unshare and nsenter alike."""
KEEP_RUNNING = """\
trap 'exit 0' TERM
while :; do
  "$@"
  echo "$1 ended with status $?; starting it again"
  sleep 1
done"""
"""What systemd does on a node of EKS. A SIGTERM goes to the whole process group, so the program ends first."""
ADDONS = (NETWORK, KUBE_PROXY, FSX)
"""The add-ons that run something on each real node."""


class RealNode:
    """One node. Starting, stopping and enabling add-ons are idempotent and safe from any thread."""

    def __init__(self, plane: ControlPlane, spec: NodeSpec, number: int) -> None:
        self.files = NodeFiles(plane, spec, number)
        self.spec = spec
        self.number = number
        self._lab = plane.files.lab
        self._cluster = plane.files
        self._lock = threading.Lock()
        self._stopped = False

    def start(self) -> None:
        """Make the namespaces and start containerd and the kubelet; the network waits for its add-on.

        Raises RuntimeError with the end of the log of whatever didn't come up.
        """
        with self._lock:
            if self._stopped:
                return
            check_folders(self._lab)
            self.files.write(cgroups.create(self._lab, self.spec.name))
            pid = self._start_init()
            containerd = programs.find(self._lab, "containerd")
            self._spawn("containerd", pid, containerd, f"--config={self.files.folder}/containerd.toml")
            self._await_socket(pid)
            self._spawn("kubelet", pid, *self._kubelet())
        threading.Thread(target=self._provide_stand_ins, args=(pid,), daemon=True).start()

    def stop(self) -> None:
        """Kill everything in the node and remove what it had."""
        with self._lock:
            self._stopped = True
            prefix = self._cluster.process("node", self.spec.name, "")
            init = processes.find(self._lab, f"{prefix}init")
            if init:
                _kill_namespace(init)
            processes.stop_all(self._lab, prefix, grace=1)
            bridge.disconnect(self._lab, self.number)
            cgroups.remove(self._lab, self.spec.name)

    def restart_kubelet(self) -> None:
        """As `systemctl restart kubelet` does it: the pods go on."""
        with self._lock:
            self._stop_program("kubelet")
            self._spawn("kubelet", self._pid(), *self._kubelet())

    def enable(self, addon: str) -> None:
        """Start the part of an add-on that runs on nodes; other add-ons have none."""
        with self._lock:
            if self._stopped:
                return
            if addon == NETWORK:
                self.files.write_network()
            elif addon == KUBE_PROXY:
                config = f"--config={self.files.folder}/kube-proxy.yaml"
                self._spawn(addon, self._pid(), programs.find(self._lab, "kube-proxy"), config, "--v=1")
            elif addon == FSX:
                self._lab.file_systems.mkdir(parents=True, exist_ok=True)
                folders = f"--file-systems={self._lab.file_systems}"
                plugins = programs.find(self._lab, "node-plugins")
                node = f"--node={self.spec.instance_id}"
                self._spawn(addon, self._pid(), plugins, "fsx-csi-node", folders, node)

    def disable(self, addon: str) -> None:
        with self._lock:
            if addon == NETWORK:
                self.files.network_file.unlink(missing_ok=True)
            elif addon in ADDONS:
                self._stop_program(addon)

    def _start_init(self) -> int:
        """Process 1 of the node, seen from outside."""
        name = self._cluster.process("node", self.spec.name, "init")
        running = processes.find(self._lab, name)
        if running:
            return self._pid()
        self.files.ready.unlink(missing_ok=True)
        # --kill-child: the node dies with its parent. --mount-proc: a /proc of its own process ids.
        own = (*NAMESPACES, "--fork", "--kill-child", "--mount-proc", "--propagation=private", "--")
        start = (programs.find(self._lab, "unshare"), *own, "sh", self.files.folder / "init.sh")
        init = programs.spawn(self._lab, name, start, self.files.folder)
        _await(self.files.ready.exists, init, f"node {self.spec.name} didn't start", self._log("init"))
        bridge.connect(self._lab, self.number, child(init))
        return child(init)

    def _pid(self) -> int:
        init = processes.find(self._lab, self._cluster.process("node", self.spec.name, "init"))
        if init is None:
            raise RuntimeError(f"node {self.spec.name} is not running{self._log('init')}")
        return child(init)

    def _spawn(self, name: str, pid: int, *command: str | Path) -> None:
        record = self._cluster.process("node", self.spec.name, name)
        if not processes.find(self._lab, record):
            enter = (programs.find(self._lab, "nsenter"), f"--target={pid}", *NAMESPACES, "--")
            keep = ("sh", "-c", KEEP_RUNNING, "sh")
            programs.spawn(self._lab, record, [*enter, *keep, *command], self.files.folder)

    def _stop_program(self, name: str) -> None:
        found = processes.find(self._lab, self._cluster.process("node", self.spec.name, name))
        if found:
            # The record is nsenter's, which ends at once; its child, the loop, ends after the program.
            loop = _children(found.pid)
            processes.stop(found)
            deadline = time.monotonic() + START_SECONDS
            while any(processes.start_time(pid) for pid in loop) and time.monotonic() < deadline:
                time.sleep(0.05)

    def _provide_stand_ins(self, pid: int) -> None:
        """In the background: a pod that is faster tries its image again."""

        def ctr(*arguments: str) -> bool:
            client = (programs.find(self._lab, "ctr"), "--namespace=k8s.io", *arguments[:2])
            hosts = (f"--hosts-dir={self.files.folder}/registries",) if arguments[1] == "pull" else ()
            enter = (programs.find(self._lab, "nsenter"), f"--target={pid}", *NAMESPACES, "--")
            command = [*enter, *client, *hosts, *arguments[2:]]
            return subprocess.run(command, capture_output=True, check=False).returncode == 0

        missing = stand_ins.provide(self._lab.registry, ctr, accelerated=bool(self.spec.devices))
        if missing and not self._stopped:
            print(f"node {self.spec.name}: no stand-in for {', '.join(missing)}", flush=True)

    def _await_socket(self, pid: int) -> None:
        socket = Path(f"/proc/{pid}/root/run/containerd/containerd.sock")
        containerd = processes.find(self._lab, self._cluster.process("node", self.spec.name, "containerd"))
        problem = f"containerd of node {self.spec.name} didn't start"
        _await(socket.exists, containerd, problem, self._log("containerd"))

    def _kubelet(self) -> list[str | Path]:
        return [
            programs.find(self._lab, "kubelet"),
            f"--config={self.files.folder}/kubelet.yaml",
            f"--kubeconfig={self.files.kubeconfig}",
            f"--hostname-override={self.spec.name}",
            f"--node-ip={self.files.address}",
            "--root-dir=/var/lib/kubelet",
            "--cert-dir=/var/lib/kubelet/pki",
            "--v=1",
        ]

    def _log(self, name: str) -> str:
        return log_tail(self._cluster, "node", self.spec.name, name)


def check_folders(lab: Lab) -> None:
    """Raises RuntimeError if a folder of the lab would be hidden by a mount that every node has of its own."""
    for folder in (lab.cache, lab.state):
        for hidden in ("/run", "/var/lib", "/var/log", "/var/run"):
            if folder.resolve().is_relative_to(hidden):
                raise RuntimeError(
                    f"{folder} is under {hidden}, which every real node has of its own: move it"
                )


def child(process: Process) -> int:
    """The first process in the namespaces that `process` (unshare) made."""
    found = _children(process.pid)
    if not found:
        raise RuntimeError(f"{process.name} ended")
    return found[0]


def _children(pid: int) -> list[int]:
    try:
        return [int(number) for number in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _kill_namespace(init: Process) -> None:
    """SIGKILL to process 1: the kernel then kills all others in its process id namespace (pid_namespaces(7))."""
    for pid in _children(init.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + START_SECONDS
        while Path(f"/proc/{pid}").exists() and init.alive() and time.monotonic() < deadline:
            time.sleep(0.02)


def _await(done: Callable[[], bool], process: Process | None, problem: str, log: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not done():
        if process is None or not process.alive() or time.monotonic() > deadline:
            raise RuntimeError(problem + log)
        time.sleep(0.05)
