"""Whether the nodes of a job are fit for it, before it starts.

    python -m trainer.launch [torchrun's options] -m trainer.health [--instance-type p5.48xlarge] [--report FILE]

check.py is the course of it. First every node looks at its own devices (node.py, devices.py); a node whose devices are
not right is named, and nothing more is tried. Then a process of its own for each GPU (worker.py) measures collectives
within nodes and between pairs of nodes (sweep.py) and reads what NCCL says of the network that it chose (nccl_log.py);
what hangs or dies there is named by progress.py. verdict.py judges the measurements. On CPUs the same sweep runs over
gloo.
"""
