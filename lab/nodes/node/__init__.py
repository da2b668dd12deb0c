"""A real node: Linux namespaces with containerd, kubelet and pods that run."""
