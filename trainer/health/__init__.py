"""Whether the nodes of a job are fit for it, before it starts.

    python -m trainer.launch [torchrun's options] -m trainer.health [--instance-type p5.48xlarge] [--report FILE]

devices.py asks the GPUs, sweep.py measures collectives within nodes and between pairs of nodes, nccl_log.py reads
what NCCL says of the network that it chose, verdict.py judges all of it and names nodes. On CPUs the same sweep runs
over gloo.
"""
