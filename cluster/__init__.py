"""The AWS layer of a stack: network, control plane, capacity, pools, storage, registry, identity."""
