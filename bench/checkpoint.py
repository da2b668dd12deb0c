"""How long training stands still for a checkpoint, by the trainer's own clock: synchronous against asynchronous."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from bench.figures import Spread, table
from bench.rounds import PROCESSES, PROJECT

MODEL = {
    "vocabulary": 8192, "hidden": 768, "layers": 14, "heads": 12, "kv_heads": 4, "feed_forward": 2048, "sequence": 64,
}  # fmt: skip
EVERY, SAVES = 8, 3
"""Steps between two saves, and saves in one run (the last one of a run, at its end, is not counted)."""
ROUNDS = 2
GOAL = 0.05
"""Asynchronous over synchronous."""


def job(output: Path, *, asynchronous: bool) -> dict[str, Any]:
    return {
        "name": "bench-checkpoint",
        "output": str(output),
        "steps": EVERY * (SAVES + 1),
        "model": MODEL,
        "data": {"source": "python-documentation"},
        "batch": {"sequences": 2, "micro": 1},
        "precision": {"compute": "float32", "reduce": "float32"},
        "checkpoint": {"every": EVERY, "keep": 1, "asynchronous": asynchronous},
        "evaluate": {"sequences": 0},
        "metrics": {"every": 1, "port": None},
    }


def run(folder: Path, say: Callable[[str], None], *, rounds: int = ROUNDS) -> dict[str, Any]:
    runs: dict[str, list[dict[str, Any]]] = {"synchronous": [], "asynchronous": []}
    for number in range(1, rounds + 1):
        for kind in runs:
            say(f"  round {number} of {rounds}: {kind}")
            runs[kind].append(_measure(folder / f"{kind}-{number}", asynchronous=kind == "asynchronous"))
    results = {}
    for kind, measured in runs.items():
        results[kind] = {
            "stall": asdict(Spread.of([value for one in measured for value in one["stalls"]])),
            "lost": asdict(Spread.of([one["lost"] for one in measured])),
            "until_complete": asdict(Spread.of([value for one in measured for value in one["complete"]])),
            "step": median(one["step"] for one in measured),
        }
    return {
        "model": MODEL, "processes": PROCESSES, "parameters": runs["synchronous"][0]["parameters"],
        "bytes": runs["synchronous"][0]["bytes"], "results": results,
    }  # fmt: skip


def _measure(output: Path, *, asynchronous: bool) -> dict[str, Any]:
    """One run of the trainer, as anybody starts it."""
    output.mkdir()
    file = output / "job.yaml"
    file.write_text(yaml.safe_dump(job(output, asynchronous=asynchronous)))
    with (output / "log").open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(PROCESSES),
             "-m", "trainer", "--config", str(file)],
            cwd=PROJECT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=log, stderr=log, check=True,
        )  # fmt: skip
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    checkpoints = output / "checkpoints"
    size = sum(path.stat().st_size for path in checkpoints.rglob("*") if path.is_file())
    shutil.rmtree(checkpoints)
    return {**stalls(lines), "bytes": size}


def stalls(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Seconds per save that the loop stood still, and that a run with saves took longer than its plain steps would.

    A step's line is written before its save, so what a save takes stands in the line of the next step, and what
    its commit takes in one of the lines after that.
    """
    start = next(line for line in lines if line["event"] == "start")
    steps = [line for line in lines if line["event"] == "step"]
    saved = [line["step"] for line in lines if line["event"] == "checkpoint"][:-1]
    periods = dict.fromkeys(saved, 0.0)
    for line in steps:
        if earlier := [step for step in saved if step < line["step"]]:
            periods[earlier[-1]] += line["seconds"].get("save", 0.0)
    plain = median(line["seconds"]["step"] for line in steps[2 : saved[0]])
    after = [line for line in steps if line["step"] > saved[0]]
    lost = sum(line["seconds"]["step"] for line in after) - plain * len(after)
    return {
        "parameters": start["parameters"],
        "stalls": list(periods.values()),
        "lost": lost / len(saved),
        "complete": [line["seconds"] for line in lines if line["event"] == "checkpoint"][:-1],
        "step": plain,
    }


def show(outcome: dict[str, Any]) -> str:
    rows = []
    for kind, result in outcome["results"].items():
        spreads = [Spread(**result[name]).show(2) for name in ("stall", "lost", "until_complete")]
        rows.append([kind, *spreads, f"{result['step']:.2f}"])
    header = ["save", "loop stands still, s", "time lost altogether, s", "until complete, s", "a step, s"]
    stall = {kind: result["stall"]["median"] for kind, result in outcome["results"].items()}
    share = stall["asynchronous"] / stall["synchronous"]
    return (
        f"{outcome['parameters']:,} parameters, {outcome['bytes'] / 1e9:.2f} GB a checkpoint, {outcome['processes']} "
        f"processes; per save, median (range)\n{table(header, rows)}\n"
        f"  asynchronous stands still for {share:.1%} of synchronous (goal {GOAL:.0%})\n"
    )
