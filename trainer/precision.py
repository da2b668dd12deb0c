"""Mixed precision: float32 parameters in the optimiser, another arithmetic in the passes."""

from __future__ import annotations

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy

from trainer.config import Precision

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def policy(precision: Precision) -> MixedPrecisionPolicy:
    """FSDP's policy. `reduce_dtype` is always given: what None means changed between torch 2.14 and 2.15.

    Outputs are left as they are: activations have the parameters' type anyway, and the loss stays float32.
    """
    return MixedPrecisionPolicy(
        param_dtype=DTYPES[precision.compute], reduce_dtype=DTYPES[precision.reduce], cast_forward_inputs=True
    )
