"""Training speed: our trainer against a bare loop and the peers, on CPU with gloo."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import peers
from bench.figures import Spread, paired, table
from bench.inputs import Sizes
from bench.rounds import PROCESSES, PROJECT, Contender, race

SIZES = Sizes(
    vocabulary=4096, hidden=256, layers=6, heads=8, kv_heads=4, feed_forward=704,
    sequence=256, sequences=8, micro=8 // PROCESSES,
)  # fmt: skip
STEPS = 10
"""Of one round."""
ROUNDS = 7
PRECISIONS = ("float32", "bfloat16")
OURS, BARE = "ours", "bare FSDP2 loop"
GOALS = {BARE: 0.99, "best peer": 1.05}
"""Our speed over theirs."""
NOTES = {
    (
        "torchtune 0.6 recipe",
        "bfloat16",
    ): "weights and optimiser in bfloat16 too: less arithmetic and less precision",
    ("HF Trainer, accelerate FSDP2", "bfloat16"): "reduces in bfloat16: accelerate's own choice",
}
"""Where a peer can't be told to do the same."""


def contenders(folder: Path) -> list[Contender]:
    package = "bench.contenders"
    everyone = [
        Contender(OURS, f"{package}.ours"),
        Contender(BARE, f"{package}.bare"),
        Contender("HF Trainer, accelerate FSDP2", f"{package}.hugging_face", peers.path()),
        Contender("HF Trainer, transformers' plan", f"{package}.hugging_face_plan", peers.path()),
        Contender("torchtune 0.6 recipe", f"{package}.tune", peers.path(torchtune=True)),
    ]
    for contender in everyone:
        contender.output = folder / contender.module.rpartition(".")[2]
    return everyone


def run(
    folder: Path,
    say: Callable[[str], None],
    *,
    rounds: int = ROUNDS,
    precisions: tuple[str, ...] = PRECISIONS,
) -> dict[str, Any]:
    inputs = folder / "inputs"
    say("making tokens and initial weights")
    subprocess.run(
        [sys.executable, "-m", "bench.inputs", str(inputs), json.dumps(asdict(SIZES)), str(STEPS * (rounds + 2))],
        cwd=PROJECT, check=True, capture_output=True,
    )  # fmt: skip
    results = {}
    for precision in precisions:
        say(f"{precision}: {rounds} rounds of {STEPS} steps")
        place = folder / precision
        place.mkdir()
        everyone = contenders(place)
        race(
            everyone,
            lambda contender, precision=precision: [str(inputs), str(contender.output), precision],  # type: ignore[misc]
            place, steps=STEPS, rounds=rounds, say=say,
        )  # fmt: skip
        results[precision] = [_result(contender, everyone[0], precision) for contender in everyone]
    return {"sizes": asdict(SIZES), "processes": PROCESSES, "steps": STEPS, "results": results}


def _result(contender: Contender, ours: Contender, precision: str) -> dict[str, Any]:
    if contender.error:
        return {"name": contender.name, "error": contender.error}
    speeds = [STEPS * SIZES.tokens / seconds for seconds in contender.seconds]
    return {
        "name": contender.name,
        "tokens_per_second": asdict(Spread.of(speeds)),
        "ours_over_this": asdict(paired(ours.seconds, contender.seconds)) if not ours.error else None,
        "cpu_ours_over_this": asdict(paired(ours.cpu_seconds, contender.cpu_seconds))
        if not ours.error
        else None,
        "cpu_seconds_per_step": asdict(Spread.of([seconds / STEPS for seconds in contender.cpu_seconds])),
        "losses": contender.losses(),
        "round_seconds": contender.seconds,
        "note": NOTES.get((contender.name, precision)),
    }


def show(outcome: dict[str, Any]) -> str:
    """The tables, with the verdicts on the goals."""
    parts = []
    for precision, results in outcome["results"].items():
        rows = []
        for result in results:
            if "error" in result:
                rows.append([result["name"], "did not run", "", "", "", ""])
                continue
            ratio, cpu = result["ours_over_this"], result["cpu_ours_over_this"]
            losses = result["losses"]
            rows.append([
                result["name"],
                Spread(**result["tokens_per_second"]).show(),
                Spread(**ratio).show(3) if ratio else "",
                Spread(**cpu).show(3) if cpu else "",
                f"{losses[0]:.4f}" if losses else "",
                f"{losses[-1]:.4f} @{STEPS * len(losses)}" if losses else "",
            ])  # fmt: skip
        header = [
            precision,
            "tokens/s, median (range)",
            "ours is x times as fast",
            "CPU seconds over ours",
            "loss at first",
            "at last",
        ]
        parts.append(table(header, rows))
        parts += [f"  {r['name']}: {r['note']}" for r in results if r.get("note")]
        parts += [f"  {r['name']} did not run: {r['error']}" for r in results if "error" in r]
        parts.append(verdict(results))
    return "\n".join(parts)


def verdict(results: list[dict[str, Any]]) -> str:
    """Our speed over the bare loop's and over the best peer's, beside the goals."""
    lines = _over(results, "ours_over_this")
    if not lines:
        return ""
    cpu = _over(results, "cpu_ours_over_this")
    return "".join(
        f"  {line}\n" for line in ["ours: " + ", ".join(lines), "by CPU seconds: " + ", ".join(cpu)]
    )


def _over(results: list[dict[str, Any]], key: str) -> list[str]:
    ratios = {r["name"]: r[key]["median"] for r in results if r.get(key)}
    lines = []
    if BARE in ratios:
        lines.append(f"over the bare loop {ratios[BARE]:.3f} (goal {GOALS[BARE]:.2f})")
    if rest := {name: ratio for name, ratio in ratios.items() if name not in (OURS, BARE)}:
        best = min(rest, key=lambda name: rest[name])
        lines.append(f"over the best peer {rest[best]:.3f} (goal {GOALS['best peer']:.2f}; {best})")
    return lines
