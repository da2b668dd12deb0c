"""Floating-point operations of training, and the share of the hardware's peak that they reach.

Model FLOPs count what the mathematics needs, not what recomputation adds (PaLM, arXiv 2204.02311, appendix B; the
convention of torchtitan): six per parameter and token (the input embedding is a look-up and does not count; a
tied matrix is counted for its use as output layer), and 12 x layers x hidden x sequence for attention, where the
causal half is not subtracted.
"""

from __future__ import annotations

PEAKS = {
    "A100": 312e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "H200": 989e12,
    "B200": 2250e12,
}
"""Dense bfloat16 operations per second by the name of the device (NVIDIA's data sheets); the longest match counts."""


def per_token(
    *, parameters: int, embedding: int, tied: bool, layers: int, attention_width: int, sequence: int
) -> float:
    """FLOPs of one token's forward and backward pass.

    `parameters`: all of them; `embedding`: those of the input embedding; `attention_width`: heads x head size.
    """
    counted = parameters if tied else parameters - embedding
    return 6.0 * counted + 12.0 * layers * attention_width * sequence


def llama_parameters(
    *,
    vocabulary: int,
    hidden: int,
    layers: int,
    heads: int,
    kv_heads: int,
    feed_forward: int,
    tied: bool,
    head_size: int | None = None,
) -> int:
    """Number of parameters of a Llama without biases."""
    size = head_size or hidden // heads
    attention = 2 * hidden * heads * size + 2 * hidden * kv_heads * size
    block = attention + 3 * hidden * feed_forward + 2 * hidden
    return layers * block + hidden + vocabulary * hidden * (1 if tied else 2)


def peak(device_name: str) -> float | None:
    """Dense bfloat16 peak of a device, FLOP/s; None for one that is not in the table (an MFU would be invented)."""
    names = [
        name
        for name in PEAKS
        if all(word in device_name.split() or word in device_name for word in name.split())
    ]
    return PEAKS[max(names, key=len)] if names else None
