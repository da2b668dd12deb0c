"""FLOPs and MFU against what others published."""

from __future__ import annotations

import pytest

from trainer import flops

LLAMA2_7B = {
    "vocabulary": 32000,
    "hidden": 4096,
    "layers": 32,
    "heads": 32,
    "kv_heads": 32,
    "feed_forward": 11008,
    "tied": False,
}
LLAMA2_13B = {
    "vocabulary": 32000,
    "hidden": 5120,
    "layers": 40,
    "heads": 40,
    "kv_heads": 40,
    "feed_forward": 13824,
    "tied": False,
}
LLAMA2_70B = {
    "vocabulary": 32000,
    "hidden": 8192,
    "layers": 80,
    "heads": 64,
    "kv_heads": 8,
    "feed_forward": 28672,
    "tied": False,
}
LLAMA3_8B = {
    "vocabulary": 128256,
    "hidden": 4096,
    "layers": 32,
    "heads": 32,
    "kv_heads": 8,
    "feed_forward": 14336,
    "tied": False,
}


def per_token(shape: dict, sequence: int) -> float:
    return flops.per_token(
        parameters=flops.llama_parameters(**shape),
        embedding=shape["vocabulary"] * shape["hidden"],
        tied=shape["tied"],
        layers=shape["layers"],
        attention_width=shape["hidden"],
        sequence=sequence,
    )


@pytest.mark.parametrize(
    ("shape", "parameters"),
    [
        (LLAMA2_7B, 6_738_415_616),
        (LLAMA2_13B, 13_015_864_320),
        (LLAMA2_70B, 68_976_648_192),
        (LLAMA3_8B, 8_030_261_248),
    ],
)
def test_parameters_of_the_published_models(shape: dict, parameters: int) -> None:
    assert flops.llama_parameters(**shape) == parameters


@pytest.mark.parametrize(
    ("source", "shape", "sequence", "device", "tokens_per_second", "mfu"),
    [
        # torchtitan, benchmarks/llama3_h100_202412_torchtitan.md: 8 H100, per GPU, eager and compiled
        ("torchtitan", LLAMA3_8B, 8192, "NVIDIA H100 80GB HBM3", 5762, 0.33),
        ("torchtitan", LLAMA3_8B, 8192, "NVIDIA H100 80GB HBM3", 6667, 0.39),
        # fms-fsdp, README: 128 A100 at 400 Gb/s, 96 H100 at 800 Gb/s
        ("fms-fsdp", LLAMA2_7B, 4096, "NVIDIA A100-SXM4-80GB", 4550, 0.68),
        ("fms-fsdp", LLAMA2_7B, 4096, "NVIDIA H100 80GB HBM3", 9600, 0.46),
        ("fms-fsdp", LLAMA2_13B, 4096, "NVIDIA A100-SXM4-80GB", 2150, 0.61),
        ("fms-fsdp", LLAMA2_13B, 4096, "NVIDIA H100 80GB HBM3", 4850, 0.43),
    ],
)
def test_published_pairs(
    source: str, shape: dict, sequence: int, device: str, tokens_per_second: int, mfu: float
) -> None:
    peak = flops.peak(device)
    assert peak is not None
    assert per_token(shape, sequence) * tokens_per_second / peak == pytest.approx(mfu, rel=0.03)


def test_the_published_70b_pairs_agree_less_well() -> None:
    """fms-fsdp states 0.55 (A100) and 0.38 (H100) for 70B: 6 % below what the formula of its 7B and 13B rows gives."""
    a100, h100 = flops.peak("NVIDIA A100-SXM4-80GB"), flops.peak("NVIDIA H100 80GB HBM3")
    assert a100 and h100
    assert per_token(LLAMA2_70B, 4096) * 410 / a100 == pytest.approx(0.55, rel=0.07)
    assert per_token(LLAMA2_70B, 4096) * 890 / h100 == pytest.approx(0.38, rel=0.07)


def test_llm_foundry_counts_the_same_for_its_7b() -> None:
    """llm-foundry, scripts/train/benchmarking: MPT 7B (hidden 4096, 32 layers, tied), 2048 tokens, 8 H100."""
    parameters = 6_658_859_008
    amount = flops.per_token(
        parameters=parameters, embedding=0, tied=True, layers=32, attention_width=4096, sequence=2048
    )
    assert amount * 10_643 / 989e12 == pytest.approx(0.464, rel=0.03)


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA H100 NVL", 835e12),
        ("NVIDIA H200", 989e12),
        ("Tesla T4", None),
    ],
)
def test_peaks(name: str, peak: float | None) -> None:
    assert flops.peak(name) == peak
