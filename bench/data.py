"""Data: preparing and loading tokens, and resuming far into a run, against webdataset and litdata, on one core each.

Every measurement runs in a process of its own, pinned to one core, and counts the CPU seconds of itself and its
children: another process on the machine takes time from it, but hardly any CPU seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import peers
from bench.figures import Spread, table
from bench.rounds import PROJECT

ROUNDS = 3
LIBRARIES = ("ours", "webdataset", "litdata")
WHAT = {
    "prepare": "preparing, tokens per CPU second",
    "load": "loading, tokens per CPU second",
    "resume": "resuming after 10^12 tokens, s",
}
GOAL_SECONDS = 1.0


def run(folder: Path, say: Callable[[str], None], *, rounds: int = ROUNDS) -> dict[str, Any]:
    say("writing texts and random tokens")
    _call(folder, "make", "inputs")
    for library in LIBRARIES:
        _call(folder, library, "write")
    results: dict[str, dict[str, Any]] = {library: {} for library in LIBRARIES}
    for what in WHAT:
        measured: dict[str, list[dict[str, Any]]] = {library: [] for library in LIBRARIES}
        for number in range(1, rounds + 1):
            say(f"  {what}: round {number} of {rounds}")
            for library in LIBRARIES if number % 2 else LIBRARIES[::-1]:
                measured[library].append(_call(folder, library, what))
        for library, answers in measured.items():
            results[library][what] = _summary(answers)
    return {"results": results}


def _call(folder: Path, library: str, what: str) -> dict[str, Any]:
    """One measurement; what it can't do is an answer too."""
    environment = {
        **os.environ, "PYTHONPATH": ":".join(map(str, (PROJECT, *peers.path()))), "OMP_NUM_THREADS": "1",
        "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "bench.loaders", str(folder), library, what],
        env=environment, cwd=folder, text=True, capture_output=True, timeout=600,
    )  # fmt: skip
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"error": (lines or ["it ended"])[-1][:300]}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _summary(answers: list[dict[str, Any]]) -> dict[str, Any]:
    if "error" in answers[0] or "note" in answers[0]:
        return answers[0]
    if "tokens" in answers[0]:
        return {
            "per_cpu_second": asdict(Spread.of([a["tokens"] / a["cpu_seconds"] for a in answers])),
            "per_second": asdict(Spread.of([a["tokens"] / a["seconds"] for a in answers])),
        }
    return {"seconds": asdict(Spread.of([a["seconds"] for a in answers]))}


def show(outcome: dict[str, Any]) -> str:
    results, notes = outcome["results"], []
    rows = []
    for what, words in WHAT.items():
        row = [words]
        for library in LIBRARIES:
            result = results[library][what]
            if "error" in result or "note" in result:
                notes.append(f"  {library}, {words}: {result.get('note') or result['error']}")
                row.append("-")
            elif what == "resume":
                row.append(Spread(**result["seconds"]).show(3))
            else:
                row.append(Spread(**result["per_cpu_second"]).show())
        rows.append(row)
    ours = results["ours"]["resume"]
    verdict = (
        f"  resume: {ours['seconds']['median']:.3f} s (goal {GOAL_SECONDS:.0f} s)"
        if "seconds" in ours
        else ""
    )
    return "\n".join([table(["one core", *LIBRARIES], rows), *notes, verdict]) + "\n"
