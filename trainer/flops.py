"""Floating-point operations of training, and the share of the hardware's peak that they reach.

Model FLOPs count what the mathematics needs, not what recomputation adds (PaLM, arXiv 2204.02311, appendix B; the
convention of torchtitan): six per parameter and token (the input embedding is a look-up and does not count; a
tied matrix is counted for its use as output layer), and 12 x layers x hidden x sequence for attention, where the
causal half is not subtracted. With a sliding window, the window takes the sequence's place where it is shorter.
"""

from __future__ import annotations

from trainer.shapes import Shape

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
    *,
    parameters: int,
    embedding: int,
    tied: bool,
    layers: int,
    attention_width: int,
    sequence: int,
    window: int | None = None,
    windowed_layers: int = 0,
) -> float:
    """FLOPs of one token's forward and backward pass.

    `parameters`: all of them; `embedding`: those of the input embedding; `attention_width`: heads x head size (of the
    queries: grouped keys and values are used by every head of their group); `window`: tokens that `windowed_layers` of
    the layers see at most.
    """
    counted = parameters if tied else parameters - embedding
    seen = (layers - windowed_layers) * sequence + windowed_layers * min(window or sequence, sequence)
    return 6.0 * counted + 12.0 * attention_width * seen


def of_shape(shape: Shape, sequence: int) -> float:
    """FLOPs of one token's forward and backward pass of a model, in sequences of that many tokens."""
    return per_token(
        parameters=shape.parameters,
        embedding=shape.embedding,
        tied=shape.tied,
        layers=shape.layers,
        attention_width=shape.query_width,
        sequence=sequence,
        window=shape.window,
        windowed_layers=shape.windowed_layers,
    )


def peak(device_name: str) -> float | None:
    """Dense bfloat16 peak of a device, FLOP/s; None for one that is not in the table (an MFU would be invented)."""
    names = [
        name
        for name in PEAKS
        if all(word in device_name.split() or word in device_name for word in name.split())
    ]
    return PEAKS[max(names, key=len)] if names else None
