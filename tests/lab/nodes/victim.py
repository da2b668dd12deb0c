"""`python -m tests.lab.nodes.victim STATE CACHE PORT_BASE`: brings a cluster up, until somebody kills it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from lab.nodes.api import ClusterSpec
from lab.nodes.runtime import KubernetesRuntime
from lab.settings import Lab
from tests.lab.nodes.support import spec

if __name__ == "__main__":
    state, cache, port_base = sys.argv[1:]
    lab = Lab("victim", Path(cache), Path(state), int(port_base))
    runtime = KubernetesRuntime(lab, "http://127.0.0.1:9/")
    runtime.create_cluster(ClusterSpec("main", "1.34", "arn"))
    for addon in ("vpc-cni", "kube-proxy", "aws-fsx-csi-driver"):
        runtime.install_addon("main", addon, "v1", {})
    runtime.add_nodes("main", [spec(1, real=True), spec(2, real=True), spec(3)])
    print("up", flush=True)
    time.sleep(600)
