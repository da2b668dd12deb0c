"""Prometheus: one small HTTP server per node, `GET /metrics`."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from trainer.config import Job
from trainer.ranks import Ranks

PARTS = {
    "data": "spent waiting for data",
    "wait": "spent waiting for other processes to begin it",
    "passes": "in forward and backward passes",
    "update": "in clipping and the optimiser",
    "evaluate": "spent evaluating",
    "save": "that training stood still to save",
}
MEMORY = {
    "peak": "memory_bytes",
    "allocated": "memory_allocated_bytes",
    "reserved": "memory_reserved_bytes",
    "retries": "memory_retries",
    "most": "memory_most_bytes",
}
SPREADS = {"data": "spent waiting for data", "compute": "inside the blocks' forward passes"}
GAUGES = {
    "step": "Last step that is done",
    "steps": "Steps of the whole job",
    "starts": "How often the run was started (the leader knows)",
    "loss": "Training loss, nats per token, mean since the report before",
    "held_out_loss": "Loss on held-out text, nats per token",
    "gradient_norm": "Norm of the whole gradient before clipping",
    "learning_rate": "Learning rate of the last step",
    "tokens": "Tokens trained on since the first step of the run",
    "tokens_per_second": "Tokens per second, all processes together",
    "tokens_per_second_per_process": "Tokens per second of one process, which is one GPU where there are any",
    "tflops_per_process": "TFLOP/s of one process, by the model's own FLOPs",
    "mfu": "Share of the devices' dense bfloat16 peak that the model's own FLOPs reach",
    "memory_bytes": "Peak memory of this process: of its allocator on a GPU, else resident",
    "memory_allocated_bytes": "Memory of this process now",
    "memory_reserved_bytes": "Memory that its allocator holds, in use or not",
    "memory_retries": "How often its allocator had to give cached memory back before it could serve",
    "memory_most_bytes": "Peak memory of the process that has the highest",
    "step_seconds": "Seconds of one step",
    **{f"{name}_seconds": f"Seconds of one step {text}" for name, text in PARTS.items()},
    **{
        f"{name}_seconds_{which}": f"Seconds of one step {text}: {which} over all processes"
        for name, text in SPREADS.items()
        for which in ("min", "median", "max")
    },
    "slowest_rank": "Process that computes longest",
    "slowest_ratio": "How many times as long as the median of the others",
    "slowest_data_rank": "Process that waits longest for data",
    "slowest_data_ratio": "How many times as long as the median of the others",
    "checkpoint_step": "Step of the newest checkpoint",
    "checkpoint_seconds": "Seconds that the newest checkpoint took",
    "heartbeat_seconds": "Unix time of the last report",
}
COUNTERS = {
    "checkpoint_failures": "Checkpoints that could not be saved",
    "checkpoint_retries": "Requests to S3 that were tried again for checkpoints that were saved (the leader knows)",
    "batches_left_out": "Batches that were not used because their gradient was not finite",
    "loss_spikes": "Reported losses far above their running median",
}
PREFIX = "shardyard_trainer_"


def of_step(facts: dict[str, Any]) -> dict[str, float | None]:
    """Every number of a step's line in `metrics.jsonl`, by the name of its gauge."""
    values = {name: value for name, value in facts.items() if not isinstance(value, dict)}
    values |= {f"{name}_seconds": value for name, value in facts["seconds"].items()}
    values |= {MEMORY[name]: value for name, value in facts["memory"].items()}
    for name, one in facts["ranks"].items():
        values |= {f"{name}_seconds_{which}": value for which, value in one.items() if which != "slowest"}
    return values


class Gauges:
    """The values above, labelled with the job's name."""

    def __init__(self, job: Job, ranks: Ranks) -> None:
        assert job.metrics.port is not None
        registry = CollectorRegistry()
        self._gauges = {
            name: Gauge(PREFIX + name, text, ["job_name"], registry=registry) for name, text in GAUGES.items()
        }
        self._counters = {
            name: Counter(PREFIX + name, text, ["job_name"], registry=registry)
            for name, text in COUNTERS.items()
        }
        self._name = job.name
        for counter in self._counters.values():
            counter.labels(self._name)
        inside_pod = "KUBERNETES_SERVICE_HOST" in os.environ
        address = job.metrics.address or ("0.0.0.0" if inside_pod else "127.0.0.1")
        try:
            server, _ = start_http_server(job.metrics.port, addr=address, registry=registry)
            self.port: int | None = server.server_port
        except OSError as error:  # metrics are not worth a job
            self.port = None
            print(
                f"{ranks.describe()}: no metrics on port {job.metrics.port}: {error.strerror}",
                file=sys.stderr,
                flush=True,
            )

    def set(self, **values: float | None) -> None:
        for name, value in values.items():
            if value is not None:
                self._gauges[name].labels(self._name).set(value)
        self._gauges["heartbeat_seconds"].labels(self._name).set(time.time())

    def count(self, name: str, amount: int = 1) -> None:
        self._counters[name].labels(self._name).inc(amount)
