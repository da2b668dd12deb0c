"""A load on a GPU, to see what its clock does under one."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import torch

from trainer.health.devices import Clock, ask_clocks

SECONDS = 6.0
"""Long enough for a clock to settle, and for nvidia-smi to ask eight devices."""
SETTLED = 0.4
"""Share of that after which they are asked."""
SIDE = {"cuda": 8192, "cpu": 64}


def clocks(device: torch.device, *, ask: bool, seconds: float = SECONDS) -> list[Clock]:
    """Multiply matrices for so long. One process of a node asks meanwhile, for all devices of the node."""
    side = SIDE[device.type]
    one, other = torch.ones(2, side, side, dtype=torch.bfloat16, device=device)
    product = torch.empty_like(one)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(_ask_after, SETTLED * seconds) if ask else None
        began = time.monotonic()
        while time.monotonic() - began < seconds or (asked and not asked.done()):
            for _ in range(20):
                torch.mm(one, other, out=product)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
        return asked.result() if asked else []


def _ask_after(seconds: float) -> list[Clock]:
    time.sleep(seconds)
    return ask_clocks()
