"""Labels and taints of nodes, as node groups set them and pods ask for them."""

from __future__ import annotations

POOL_LABEL = "shardyard.dev/pool"
GPU_LABEL = "nvidia.com/gpu.present"
EFA_LABEL = "vpc.amazonaws.com/efa.present"
GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
"""In EKS's spelling. It keeps pods without a GPU off the expensive nodes."""
