"""The training program: Llama-family models, sharded by PyTorch's FSDP2, on any number of processes.

`python -m torch.distributed.run --nproc-per-node 2 -m trainer --config JOB.yaml` runs it on a laptop, on the
local stack and on p5 alike. Where to start reading:

  run.py     the phases of a run: data, model, newest checkpoint, loop, summary
  loop.py    one training step from top to bottom
  config/   everything that a job file may say

Each parallelism, precision and feature is a file of its own and is applied to a plain `transformers` model from
outside. Nothing here knows of Pulumi, of Kubernetes or of AWS.
"""
