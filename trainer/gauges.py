"""Prometheus: one small HTTP server per node, `GET /metrics`."""

from __future__ import annotations

import os
import sys
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from trainer.config import Job
from trainer.ranks import Ranks

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
    "mfu": "Share of the devices' dense bfloat16 peak that the model's own FLOPs reach",
    "memory_bytes": "Peak memory of this process: of its allocator on a GPU, else resident",
    "step_seconds": "Seconds of one step",
    "data_seconds": "Seconds of one step spent waiting for data",
    "save_seconds": "Seconds of one step that training stood still to save",
    "checkpoint_step": "Step of the newest checkpoint",
    "checkpoint_seconds": "Seconds that the newest checkpoint took",
    "heartbeat_seconds": "Unix time of the last report",
}
COUNTERS = {
    "checkpoint_failures": "Checkpoints that could not be saved",
    "checkpoint_retries": "Requests to S3 that were tried again for checkpoints that were saved (the leader knows)",
}
PREFIX = "shardyard_trainer_"


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
