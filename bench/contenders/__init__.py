"""Programs that train the same model on the same batches, each as its own documentation says.

    python -m torch.distributed.run --nproc-per-node 2 -m bench.contenders.NAME INPUTS OUTPUT PRECISION

INPUTS is a folder of bench.inputs, OUTPUT takes `losses.json` (the mean of every ten steps), PRECISION is float32
or bfloat16. A contender trains until it is ended.
"""
