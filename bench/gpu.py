"""MFU of an 8B-shaped model on one GPU; bench/gpu.sh runs it after the health check.

    python -m bench.gpu [--json FILE] [--steps N] [--only NAME ...]

The blocks have Llama 3 8B's shape. Training keeps 16 bytes for a parameter, so one GPU holds fewer of the blocks than
the 32 of the 8B model; the table says how many. MFU counts what is there. Data are random tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import yaml

from bench import machine
from bench.figures import table
from trainer.shapes import Shape

PROJECT = Path(__file__).resolve().parents[1]
NO_GPU = 69
"""Exit status: nothing to measure on (EX_UNAVAILABLE of sysexits.h)."""
SEQUENCE = 8192
SHAPE = Shape(
    "llama", vocabulary=128_256, hidden=4096, layers=32, heads=32, kv_heads=8, head_size=128, feed_forward=14_336,
    tied=False,
)  # fmt: skip
"""Llama 3 8B."""
BYTES = 16
"""Of one parameter: weight, gradient and two moments, each float32."""
ROOM = 0.55
"""Share of the GPU's memory for those; the rest is for activations, logits and gathered weights."""
VARIANTS: dict[str, dict[str, Any]] = {
    "bfloat16": {},
    "bfloat16, compiled": {"compile": True},
    "float8, compiled": {"compile": True, "precision": {"float8": "rowwise"}},
    "float8 by tensor, compiled": {"compile": True, "precision": {"float8": "tensorwise"}},
}
WARM_UP = 10
"""Steps that don't count: compilation, allocator, clocks."""


def blocks_for(memory: int) -> int:
    """Blocks that fit on a device with so many bytes, at most all. Raises ValueError if not even one does."""
    fitting = int((memory * ROOM / BYTES - SHAPE.embedding - SHAPE.head) // SHAPE.block)
    if fitting < 1:
        raise ValueError(f"{memory / 2**30:.0f} GiB hold no block of this shape with its optimiser")
    return min(SHAPE.layers, fitting)


def job(output: Path, data: Path, blocks: int, changes: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "bench-gpu",
        "output": str(output),
        "steps": 100_000,
        "model": {
            "vocabulary": SHAPE.vocabulary, "hidden": SHAPE.hidden, "layers": blocks, "heads": SHAPE.heads,
            "kv_heads": SHAPE.kv_heads, "feed_forward": SHAPE.feed_forward, "sequence": SEQUENCE,
            "rope_theta": 500_000.0,
        },
        "data": {"prepared": str(data)},
        "batch": {"sequences": 1, "micro": 1},
        "recompute": {"mode": "selective"},
        "evaluate": {"sequences": 0},
        "metrics": {"every": 5, "port": None},
        **changes,
        "precision": {"compute": "bfloat16", "reduce": "float32", **changes.get("precision", {})},
    }  # fmt: skip


def measure(file: Path, output: Path, steps: int, limit: float = 900) -> dict[str, Any]:
    """Run the trainer until it has reported so many steps, then kill it and delete its output: told to end, it would
    first save tens of gigabytes."""
    log = output.with_suffix(".log")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "-m", "trainer", "--config", str(file)], cwd=PROJECT, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
        began = time.monotonic()
        try:
            while time.monotonic() - began < limit:
                lines = [line for line in _lines(output / "metrics.jsonl") if line["event"] == "step"]
                if lines and lines[-1]["step"] >= WARM_UP + steps:
                    return _summary([line for line in lines if line["step"] > WARM_UP])
                if process.poll() is not None:
                    words = [line for line in log.read_text(errors="replace").splitlines() if "Error" in line]
                    return {"error": (words or [f"ended with {process.returncode}"])[0][:300]}
                time.sleep(1)
            return {"error": f"not done after {limit:.0f} s"}
        finally:
            _kill(process)
            shutil.rmtree(output, ignore_errors=True)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End torchrun and its workers, which have sessions of their own, at once."""
    sessions = {process.pid}
    if process.poll() is None:
        os.kill(process.pid, signal.SIGSTOP)  # so that it starts nothing meanwhile
        sessions |= {session for _, session in _family(process.pid).values()}
    while left := [one for one, (_, session) in _processes().items() if session in sessions]:
        for one in left:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        time.sleep(0.05)
    process.wait()


def _family(process: int) -> dict[int, tuple[int, int]]:
    """A process and all below it."""
    known = _processes()
    found = {process}
    while more := {one for one, (parent, _) in known.items() if parent in found} - found:
        found |= more
    return {one: known[one] for one in found if one in known}


def _processes() -> dict[int, tuple[int, int]]:
    """Parent and session of every process that has not ended."""
    found = {}
    for process in psutil.process_iter(["ppid", "status"]):
        if process.info["status"] not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            with suppress(OSError):
                found[process.pid] = (process.info["ppid"], os.getsid(process.pid))
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def _summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "tokens_per_second": median(line["tokens_per_second"] for line in lines),
        "tflops": median(line["tflops_per_process"] for line in lines),
        "mfu": median(line["mfu"] for line in lines) if lines[0]["mfu"] is not None else None,
        "memory_gib": round(max(line["memory"]["peak"] for line in lines) / 2**30, 1),
        "loss": lines[-1]["loss"],
    }


def flash() -> float:
    """TFLOP/s of causal flash attention, forward pass, for the model's shape; raises if the kernel is not there."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention as attention

    size, length, heads = SHAPE.head_size, SEQUENCE, SHAPE.heads
    query, key, value = torch.randn(3, 1, heads, length, size, device="cuda", dtype=torch.bfloat16)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for _ in range(3):
            attention(query, key, value, is_causal=True)
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(20):
            attention(query, key, value, is_causal=True)
        torch.cuda.synchronize()
    return 20 * 2 * heads * length * length * size / (time.perf_counter() - began) / 1e12


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--present", action="store_true", help="only say whether there is a GPU")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure here")
    parser.add_argument("--steps", type=int, default=20, help="steps that count")
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), default=list(VARIANTS))
    options = parser.parse_args(arguments)
    import torch

    if not torch.cuda.is_available():
        print("bench/gpu.sh: no GPU on this machine, nothing was measured", file=sys.stderr)
        return NO_GPU
    properties = torch.cuda.get_device_properties(0)
    if options.present:
        print(f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB")
        return 0

    blocks = blocks_for(properties.total_memory)
    speed = flash()
    torch.cuda.empty_cache()
    outcome: dict[str, Any] = {
        "machine": machine.facts(), "gpu": properties.name, "blocks": blocks, "of": SHAPE.layers,
        "flash_attention_tflops": round(speed, 1), "results": {},
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="bench-gpu-") as temporary:
        folder = Path(temporary)
        from bench.tokens import random_shards

        random_shards(folder / "data", SHAPE.vocabulary, 1 << 24, 1 << 24)
        for number, name in enumerate(options.only):
            print(f"  {name}", flush=True)
            output = folder / str(number)
            file = folder / f"{number}.yaml"
            file.write_text(yaml.safe_dump(job(output, folder / "data", blocks, VARIANTS[name])))
            outcome["results"][name] = measure(file, output, options.steps)
    print(f"\n{machine.describe(outcome['machine'])}\n\n{show(outcome)}")
    if options.json:
        options.json.write_text(json.dumps(outcome, indent=1) + "\n")
    return 1 if any("error" in result for result in outcome["results"].values()) else 0


def show(outcome: dict[str, Any]) -> str:
    rows = []
    for name, result in outcome["results"].items():
        if "error" in result:
            rows.append([name, result["error"], "", "", "", ""])
            continue
        mfu = f"{result['mfu']:.1%}" if result["mfu"] is not None else "unknown peak"
        rows.append([
            name, f"{result['tokens_per_second']:,.0f}", f"{result['tflops']:.0f}", mfu, f"{result['memory_gib']}",
            f"{result['loss']:.3f}",
        ])  # fmt: skip
    header = [
        f"{outcome['blocks']} of {outcome['of']} blocks",
        "tokens/s",
        "TFLOP/s",
        "MFU",
        "peak GiB",
        "loss",
    ]
    return (
        f"{outcome['gpu']}; flash attention {outcome['flash_attention_tflops']} TFLOP/s forward\n"
        + table(header, rows)
        + "\nMFU against the dense bfloat16 peak, also for float8"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
