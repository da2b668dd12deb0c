"""Our trainer, as anybody starts it: its own program with a job file."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from bench import pace
from bench.contenders.losses import EVERY
from bench.inputs import Inputs
from trainer.__main__ import main as trainer


def job(inputs: Inputs, output: Path, precision: str) -> dict[str, object]:
    sizes = inputs.sizes
    return {
        "name": "bench",
        "output": str(output),
        "seed": sizes.seed,
        "steps": 100_000,
        "model": {"huggingface": str(inputs.weights), "sequence": sizes.sequence},
        "data": {"prepared": str(inputs.prepared)},
        "batch": {"sequences": sizes.sequences, "micro": sizes.micro},
        "precision": {"compute": precision, "reduce": "float32"},
        "optimiser": {
            "learning_rate": sizes.learning_rate,
            "beta1": 0.9,
            "beta2": 0.95,
            "weight_decay": 0.0,
            "clip": 1.0,
        },
        "schedule": {"floor": 1.0},
        "evaluate": {"sequences": 0},
        "metrics": {"every": EVERY, "port": 0},
        # Between its rounds a contender stands still for minutes.
        "limits": {"start_seconds": 3600, "collective_seconds": 3600},
    }


def main(folder: Path, output: Path, precision: str) -> int:
    file = output / f"job-{precision}.yaml"
    file.write_text(yaml.safe_dump(job(Inputs.read(folder), output, precision)))
    pace.keep("ours")
    return trainer(["--config", str(file)])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
