"""The local stack's Kubernetes: what an EKS cluster consists of, as processes of this machine.

api.py              the interface that the emulator (lab/aws) calls; runtime.py implements it
running_cluster.py  one cluster: its control plane, nodes, add-ons and access policies
components/         etcd, API server, controller manager, scheduler: how each is started
node/               a real node: namespaces, containerd, kubelet, kube-proxy, bridge, control groups
simulated/          nodes simulated by kwok, and their device plugins
registration/       Node objects: labels, taints, readiness
eks/                what EKS puts into a cluster: add-ons, access policies
client/             Kubernetes API client, informer, drain
pki.py, kubeconfig.py, cluster_files.py, programs.py   certificates, files, ports, programs
cleanup.py          finds and removes what a killed emulator left on the machine

Imports point one way: runtime → running_cluster → node, simulated → registration, eks, components → client → files.
"""
