"""The Kubernetes layer of a stack: what runs in the cluster that cluster/ built."""
