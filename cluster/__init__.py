"""The AWS layer of a stack: network, control plane, reserved capacity, node groups, storage, registry, identity."""
